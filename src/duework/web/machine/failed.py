"""Failed jobs by what they failed of; redrive or purge one kind, or those that are ticked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.responses import Response

from duework.db.database import Tx
from duework.errors import Conflict, NotFound
from duework.health.failing import GROUPED, FailedJob, failed_jobs, grouped
from duework.web.acts import ask, audited, sure, told
from duework.web.lists import PAGE, address, before, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import Visit, form_ids

OnChunk = Callable[[Visit, Tx, Sequence[int]], int]

GROUPS = 30
# So many are opened again without a question.
AT_ONCE = 100


def failed(visit: Visit) -> Response:
    """Kinds of errors, the newest first, and below them the jobs."""
    task, queue, error = (text(visit, name) for name in ("task", "queue", "error"))
    found = _found(visit, task, queue, "")
    groups = grouped(found)
    start = before(visit)
    listed = [job for job in found if job.id < start and error in {"", job.alike}]
    shown = listed[:PAGE]

    def here(**more: str | int) -> str:
        asked = {"task": task, "queue": queue, "error": error, **more}
        return address(visit.base, "/failed", **asked)

    chosen = [(name, value) for name, value in (("task", task), ("queue", queue), ("error", error))]
    return show(
        *(visit, "failed.html"),
        rows=shown,
        groups=groups[:GROUPS],
        hidden_groups=max(0, len(groups) - GROUPS),
        total=len(found),
        more=len(found) >= GROUPED,
        oldest=min((job.settled for job in found), default=None),
        chosen=[(name, value, here(**{name: ""})) for name, value in chosen if value],
        task=task,
        queue=queue,
        newest=here() if visit.asked("before") else "",
        older=here(before=shown[-1].id) if len(listed) > PAGE else "",
    )


def _found(visit: Visit, task: str, queue: str, error: str) -> list[FailedJob]:
    with visit.app.wiring.engine.database.reading() as tx:
        jobs = failed_jobs(tx, task=task, queue=queue)
    return [job for job in jobs if error in {"", job.alike}]


def _chosen(visit: Visit) -> tuple[list[int], str]:
    """The jobs that a form names: those ticked, or those of a filter; and what they are called."""
    if visit.all_sent("id"):
        ids = form_ids(visit)
        return ids, f"{len(ids)} failed jobs"
    task, queue, error = (text(visit, name) for name in ("task", "queue", "error"))
    what = [f"of {task}" if task else "", f"in queue {queue}" if queue else "", error]
    ids = [job.id for job in _found(visit, task, queue, error)]
    return ids, " ".join(["failed jobs", *(each for each in what if each)])


def redrive(visit: Visit) -> Response:
    """Open failed jobs again, due at once; of many it is asked first."""
    ids, what = _chosen(visit)
    if len(ids) > AT_ONCE and not sure(visit):
        return ask(
            *(visit, f"Redrive {len(ids):,} failed jobs?"),
            "They are due at once, and run as fast as their paces and limits let them.",
            effects=[
                ("ready", f"{len(ids):,} {what}"),
                ("failed", "One whose key is taken stays failed"),
            ],
            fields=_fields(visit),
            crumb=("/failed", "Failed"),
            keep="Leave them",
            button=f"Redrive {len(ids):,} jobs",
        )
    done, refused = _in_chunks(visit, "redrive", what, ids, _revive)
    words = f"{done:,} opened again" + (
        f"; {len(refused):,} are not: {refused[0]}" if refused else ""
    )
    return told(visit, what, words, "{}")


def _revive(visit: Visit, tx: Tx, chunk: Sequence[int]) -> int:
    return len(visit.app.wiring.engine.revive(tx, list(chunk)))


def _purge(visit: Visit, tx: Tx, chunk: Sequence[int]) -> int:
    return visit.app.wiring.engine.purge(tx, [list(chunk)])[0]


def _in_chunks(
    visit: Visit, what: str, target: str, ids: Sequence[int], act: OnChunk
) -> tuple[int, list[str]]:
    """A transaction and a line of the audit for each hundred; where one is in the way, for each job."""
    done, refused = 0, list[str]()
    chunks = [list(ids[at : at + AT_ONCE]) for at in range(0, len(ids), AT_ONCE)]
    while chunks:
        chunk = chunks.pop(0)

        def both(tx: Tx, some: list[int] = chunk) -> str:
            return f"{act(visit, tx, some)} of {len(some)}"

        try:
            done += int(audited(visit, what, target, both).split()[0])
        except (Conflict, NotFound) as error:
            if len(chunk) == 1:
                refused.append(str(error))
            chunks[:0] = [[each] for each in chunk] if len(chunk) > 1 else []
    return done, refused


def _fields(visit: Visit) -> list[tuple[str, str]]:
    return [each for each in visit.form if each[0] in {"id", "task", "queue", "error"}]


def purge(visit: Visit) -> Response:
    """Delete failed jobs for good, after typing how many."""
    ids, what = _chosen(visit)
    typed = f"purge {len(ids):,}"
    if ids and (not sure(visit) or (visit.sent("typed") != typed and not visit.by_program)):
        again = visit.sent("sure") == "yes"
        return ask(
            *(visit, f"Purge {len(ids):,} failed jobs?"),
            "They and their attempts are deleted for good. This cannot be undone.",
            effects=[
                ("failed", f"{len(ids):,} {what} are deleted"),
                ("ready", "No running, ready or waiting job is touched"),
                ("done", "Rather not? Redrive them instead"),
            ],
            fields=_fields(visit),
            crumb=("/failed", "Failed"),
            keep="Keep them",
            button=f"Purge {len(ids):,} jobs",
            typed=typed,
            wrong=f"That is not “{typed}”: it may have changed meanwhile." if again else "",
        )
    done, refused = _in_chunks(visit, "purge", what, ids, _purge)
    words = f"{done:,} purged" + (f"; {refused[0]}" if refused else "")
    return told(visit, what, words, "{}")


PAGES = [
    OwnPage(
        *("/failed", failed),
        live=regions(errors=2.0, failed=2.0),
        nav=NavItem("Failed", "failed", key="f", place=2, needs=("failing", "poison")),
    ),
    OwnPage("/failed/redrive", redrive, "operate", "POST"),
    OwnPage("/failed/purge", purge, "admin", "POST"),
]
