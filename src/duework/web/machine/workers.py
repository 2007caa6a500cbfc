"""Workers: which there are, whether they live, and what a chosen one runs."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from duework.handles import Job
from duework.health.status import WorkerStatus
from duework.kernel.machine.processes import memory_of
from duework.web.lists import number, show
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import SOON, Visit

# So many leased jobs are looked at, and so many are listed.
LOOKED, LISTED = 1000, 50
WORDS = {
    "alive": ("running", "running"),
    "elsewhere": ("running", "on another host"),
    "dead": ("failed", "dead"),
    "rebooted": ("failed", "its host was rebooted"),
}


def workers(visit: Visit) -> Response:
    """Those that hold jobs, or held some: one that never did has written nothing."""
    status = visit.app.status()
    found = sorted(status.workers, key=lambda each: (-each.running, -each.started))
    leased = visit.app.jobs(phase="running", limit=LOOKED, own=True) if found else []
    runs: dict[int, list[Job[Any]]] = {}
    for job in leased:
        runs.setdefault(job.worker or 0, []).append(job)
    wanted = number(visit, "worker", found[0].id if found else 0)
    chosen = next((each for each in found if each.id == wanted), None)
    visit.again = SOON if any(each.running for each in found) else None
    living = [each for each in found if each.seen in {"alive", "elsewhere"}]
    return show(
        *(visit, "workers.html"),
        rows=found,
        living=living,
        gone=[each for each in found if each not in living and each.running],
        hosts=len({each.host for each in living}),
        running=sum(each.running for each in living),
        most=max([each.running for each in found], default=1) or 1,
        state=_state,
        memory=_memory,
        worker=chosen,
        runs=runs.get(chosen.id, [])[:LISTED] if chosen is not None else [],
    )


def _state(worker: WorkerStatus) -> tuple[str, str]:
    """The glyph and the word; one that holds nothing is idle, or has ended."""
    glyph, words = WORDS[worker.seen]
    if not worker.running and worker.seen != "elsewhere":
        return "idle", "idle" if worker.seen == "alive" else "ended"
    return glyph, words


def _memory(worker: WorkerStatus) -> int | None:
    """Of one that is seen from here; those on other hosts do not tell."""
    return memory_of(worker.pid) if worker.seen == "alive" else None


PAGES = [
    OwnPage(
        *("/workers", workers),
        live=regions(workers=1.0, runs=1.0),
        nav=NavItem("Workers", "workers", "Machine", key="w", place=10),
    ),
]
