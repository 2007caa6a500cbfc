"""What people look at: jobs, one job, the menu. Each reads a bounded number of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from duework import verbs
from duework.clock import FOREVER
from duework.errors import NotFound
from duework.handles import Job
from duework.health.short import shortly
from duework.health.why import Why
from duework.kernel.engine import OWN_TASKS
from duework.shapes.steps.handle import Workflow
from duework.web.filters import NONE
from duework.web.overview import sums
from duework.web.rendering import first_line, sees_payloads, static_files
from duework.web.timeline import timeline
from duework.web.visits import SOON, Visit

PAGE = 50
LONGEST = 300
PHASES = ("running", "ready", "waiting", "failed", "done", "cancelled")
FILTERS = ("task", "queue", "key")
# A row is kept for ever from here on; see `keep_failed`.
FAR = FOREVER - 1


# How a reason is drawn: its glyph, and whether somebody may have to act.
LOOKS = {
    "not writable": ("failed", "bad"),
    "no worker": ("workers", "bad"),
    "unknown task": ("unknown", "warn"),
    "paused": ("lock", "warn"),
    "pace blocked": ("pace", "warn"),
    "pace": ("pace", ""),
    "full": ("pace", ""),
    "retry": ("retry", ""),
    "running": ("running", ""),
    "lease over": ("late", "warn"),
    "parked": ("late", "warn"),
    "in turn": ("ready", ""),
    "later": ("clock", ""),
    "snoozed": ("clock", ""),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job does not run yet: a sentence, and when that ends."""

    kind: str
    sentence: str
    until: int | None = None
    job: int | None = None
    pace: str | None = None
    queue: str | None = None

    @property
    def glyph(self) -> str:
        return looks(self.kind)[0]

    @property
    def tone(self) -> str:
        return looks(self.kind)[1]


def looks(kind: str) -> tuple[str, str]:
    """The glyph and the tone of a reason."""
    return LOOKS.get(kind, ("serial", ""))


def jobs(visit: Visit) -> Response:
    """Jobs by phase, task, queue and key, or by tag, newest first; all of that is in the address."""
    if visit.asked("q"):
        return _found(visit, visit.asked("q").strip())
    phase, wanted, tag, place = _asked(visit)
    found = (
        _tagged(visit, tag, place)
        if tag
        else visit.app.search_jobs(phase=phase, **wanted, before=place, limit=PAGE)
    )
    shown, status = found.jobs, visit.app.status()
    counts = {**sums(status), "failed": status.failed}

    def url(**more: str) -> str:
        asked = {"phase": phase, **wanted, "tag": "" if "phase" in more else tag, **more}
        query = urlencode({k: v for k, v in asked.items() if v})
        return f"{visit.base}/jobs" + (f"?{query}" if query else "")

    newer, rows = 0, visit.rows
    if rows is not None:
        # What the reader looks at stands still.
        newer = sum(_is_newer(job, rows) for job in shown)
        shown = visit.app.wiring.jobs.get_many(rows)
    visit.again = _again(shown)
    sees = sees_payloads(visit.app, visit)
    return visit.render(
        *(visit, "jobs.html"),
        live=visit.live(job.id for job in shown),
        newer=newer,
        jobs=shown,
        phase=phase,
        key=wanted["key"],
        chosen=[(name, value) for name, value in {**wanted, "tag": tag}.items() if value],
        tabs=[
            ("All", "", None),
            *((name.capitalize(), name, counts.get(name)) for name in PHASES),
        ],
        with_phase=lambda value: url(phase=value),
        without=lambda name: url(**{name: ""}),
        newest=url(),
        older="" if found.before is None else url(before=str(found.before)),
        looked=verbs.LOOK if found.before is not None and len(found.jobs) < PAGE else 0,
        paged=bool(visit.asked("before")),
        says=lambda each: says(each, payloads=sees),
        waits=shortly(status),
        looks=looks,
        far=FAR,
    )


def _asked(visit: Visit) -> tuple[str, dict[str, Any], str, int]:
    """The phase, the filters, the tag and the place to go on from that an address names."""
    wanted: dict[str, Any] = {name: visit.asked(name) for name in FILTERS}
    phase = visit.asked("phase")
    if phase not in {"", "expired", *PHASES}:
        raise HTTPException(400, "There is no such phase.")
    tag = visit.asked("tag")
    if any(len(value) > LONGEST or "\0" in value for value in (*wanted.values(), tag)):
        raise HTTPException(400, "A filter that long matches nothing.")
    before = visit.asked("before") or str(2**62)
    if not re.fullmatch(r"[0-9]{1,19}", before):
        raise HTTPException(400, "`before` is the id of a job.")
    if tag:
        # By its own index alone: what else could be asked for is not looked for.
        phase, wanted = "", dict.fromkeys(FILTERS, "")
    return phase, wanted, tag, min(int(before), 2**62)


def _tagged(visit: Visit, tag: str, before: int) -> verbs.FoundJobs:
    """Jobs that carry a tag, as a search gives them."""
    shown = visit.app.tagged(tag, before=before, limit=PAGE + 1)
    more = shown[PAGE - 1].id if len(shown) > PAGE else None
    return verbs.FoundJobs(shown[:PAGE], more)


def _is_newer(job: Job[Any], rows: Sequence[int]) -> bool:
    """Whether a list of these rows would show it too if it were opened now, not only further down."""
    return job.id not in rows and (len(rows) < PAGE or job.id > min(rows))


def _again(shown: Iterable[Job[Any]]) -> float | None:
    """In how many seconds these jobs look different though nothing is written: some run, wait or fall due."""
    times = [
        SOON if job.due <= job.seen_at or job.worker else (job.due - job.seen_at) / 1000
        for job in shown
        if job.state == "open" and job.due < FOREVER
    ]
    return min(times, default=None)


def _found(visit: Visit, text: str) -> Response:
    """What the box at the top of every page means: an id, a task, else a key."""
    if re.fullmatch(r"[0-9]{10,19}", text):
        return RedirectResponse(f"{visit.base}/jobs/{text}", 303)
    tasks = {line.task for line in visit.app.status().tasks}
    query = urlencode({"task" if text in tasks else "key": text[:LONGEST]})
    return RedirectResponse(f"{visit.base}/jobs?{query}", 303)


def says(job: Job[Any], *, payloads: bool = True) -> str:
    """What a list tells of a job: its error, why it ends, its progress or its result."""
    if job.error and job.state != "done":
        return first_line(job.error)[:LONGEST]
    if job.cancelling:
        return f"is being cancelled: {job.cancelling}"[:LONGEST]
    if job.phase == "expired":
        return "its lease has ended: whoever looks next takes it over"
    # That nothing was returned is not worth a word; what a page of a chain gave back has a page of its own.
    quiet = job.stored_result == "null" or (job.owner or "").startswith("chain:")
    result = "" if quiet else job.stored_result
    return (job.stored_progress or result or "")[:LONGEST] if payloads else ""


def job(visit: Visit) -> Response:
    """One job: where it is, why, what it did."""
    identifier = int(visit.request.path_params["id"])
    if identifier >= 2**63:
        raise NotFound(f"there is no job {identifier}")
    found = visit.app.job(identifier)
    attempts = visit.app.attempts(identifier)
    drawn = timeline(found, attempts, visit.app.now(), visit.zone)
    visit.again = _again([found])
    hidden = {"payload", "stored_result", "stored_progress", "error", "_app"}
    return visit.render(
        *(visit, "job.html"),
        live=visit.live(),
        job=found,
        reasons=_reasons(visit, found),
        owner_url=_owner_url(found.owner or ""),
        flow=_workflow(visit, identifier),
        tags=found.tags,
        headers=found.headers,
        attempts=attempts[::-1],
        worker_name=_worker_names(visit),
        line=drawn,
        kept_for_ever=found.due >= FAR,
        far=FAR,
        raw=[
            (name, value)
            for name in found.__struct_fields__
            if name not in hidden and (value := getattr(found, name)) is not None
        ],
    )


def _worker_names(visit: Visit) -> Callable[[int | None], str]:
    """A worker by its host and process; of one that has been written off only the number is left."""

    @lru_cache(maxsize=1)
    def known() -> dict[int, str]:
        return {each.id: f"{each.host}:{each.pid}" for each in visit.app.status().workers}

    return lambda worker: NONE if worker is None else known().get(worker, "one that has ended")


def _workflow(visit: Visit, job: int) -> Workflow | None:
    """What it has recorded, if it records steps."""
    found = visit.app.workflows(before=job + 1, limit=1)
    return found[0] if found and found[0].job == job else None


# Where the pages of shapes are that own jobs: an owner is `kind:` and an id or a key.
OWNERS = {
    "chain": "/chains/{}",
    "delivery": "/deliveries/{}",
    "event": "/events/{}",
    "outbox": "/outboxes/messages/{}",
    "schedule": "/schedules/one?key={}",
    "sweep": "/sweeps/one?name={}",
}


def _owner_url(owner: str) -> str:
    kind, _, name = owner.partition(":")
    return OWNERS[kind].format(quote(name, safe="")) if kind in OWNERS else ""


def _reasons(visit: Visit, found: Job[Any]) -> list[Reason]:
    """All that hold, the first first; none for a job that has ended."""
    if found.state != "open":
        return []
    theirs = [name for name in visit.app.wiring.registry.names() if not name.startswith(OWN_TASKS)]
    why = visit.app.why(found.id)
    reasons = [_reason(each) for each in (why, *why.others)]
    if theirs and visit.app.wiring.registry.get(found.task) is None:
        words = "This App does not know the task. A worker that knows it may be running elsewhere"
        reasons.insert(0, Reason("unknown task", words))
    return reasons


def _reason(why: Why) -> Reason:
    return Reason(why.kind, why.sentence, why.until, why.job, why.pace, why.queue)


def menu(visit: Visit) -> Response:
    return visit.render(visit, "menu.html")


def nothing(_visit: Visit) -> Response:
    """Every address that there is no page for."""
    raise NotFound("There is no such page.")


def static(visit: Visit) -> Response:
    """A file of the wheel, under a name that changes with it: it may be kept for ever."""
    try:
        body, kind = static_files()[visit.request.path_params["name"]]
    except KeyError:
        raise NotFound("There is no such file.") from None
    kept = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(body, media_type=kind, headers=kept)
