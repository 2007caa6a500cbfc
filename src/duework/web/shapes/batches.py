"""Batches: progress in segments, until about when, a map of the members; retry failed, cancel the rest."""

from __future__ import annotations

from starlette.responses import Response

from duework.db.database import Tx
from duework.health.activity import Slots, slots_of
from duework.kernel.batches import verbs
from duework.kernel.batches.counters import BATCHES
from duework.kernel.error_text import redact
from duework.shapes.batches.handle import Batch, Progress
from duework.web.acts import acted, ask, sure, told, written
from duework.web.filters import clock
from duework.web.lists import PAGE, address, before, number, path_id, show, text
from duework.web.regions import regions
from duework.web.rendering import first_line
from duework.web.table import NavItem, OwnPage
from duework.web.visits import SOON, Visit

# A map has so many cells; of a larger batch a cell is many members.
CELLS = 2000
SHOWN_FAILED = 10
Part = tuple[str, float, str]


def batches(visit: Visit) -> Response:
    """Newest first."""
    name = text(visit, "name")
    found = visit.app.batches(name=name, before=before(visit), limit=PAGE + 1)
    shown, now = found[:PAGE], visit.app.now()
    running = [each for each in shown if each.settled is None]
    visit.again = SOON if running else None

    def here(**more: str | int) -> str:
        return address(visit.base, "/batches", **{"name": name, **more})

    ends = [(_about_end(each, now) or 0, each) for each in running]
    return show(
        *(visit, "batches.html"),
        rows=shown,
        running=len(running),
        bad=sum(bool(each.failed) for each in shown),
        last=max(ends, key=lambda each: each[0], default=(0, None)),
        parts=_parts,
        ended=_ended,
        about=lambda each: _about_end(each, now),
        filters=[("name", "Batches of this name", name)],
        chosen=[("name", name, here(name=""))] if name else [],
        newest=here() if visit.asked("before") else "",
        older=here(before=shown[-1].id) if len(found) > PAGE else "",
    )


def _ended(each: Batch) -> int:
    return each.done + each.failed + each.cancelled


def _about_end(each: Batch, now: int) -> int | None:
    """When it ends if it goes on as it did so far; None if that cannot be said."""
    ended = _ended(each)
    if each.settled is not None or not ended or ended >= each.total:
        return None
    return now + (now - each.created) * (each.total - ended) // ended


def _parts(each: Batch, running: int = 0) -> list[Part]:
    """The segments of its bar."""
    done = "did" if each.settled is not None else "done"
    counts = [(done, each.done, "done"), ("fail", each.failed, "failed")]
    counts += [("wait", each.cancelled, "cancelled"), ("run", running, "running")]
    total = max(1, each.total)
    return [(cls, count / total, f"{count:,} {word}") for cls, count, word in counts if count]


def batch(visit: Visit) -> Response:
    """One batch: the map, failed members, how fast its task goes."""
    found = visit.app.get_batch(path_id(visit, "batch"))
    progress, now = found.progress(), visit.app.now()
    with visit.app.wiring.engine.database.reading() as tx:
        seen = slots_of(tx, now=now, tasks=[found.task], slots=30)
    visit.again = SOON if found.settled is None else None
    times = [clock(seen.first + place * seen.step, visit.zone)[:5] for place in range(30)]
    return show(
        *(visit, "batch.html"),
        heading=found.name or f"Batch {found.id}",
        batch=found,
        progress=progress,
        parts=_parts(found, progress.running),
        about=_about_end(found, now),
        cells=_cells(visit, found, progress),
        many_each=-(-found.total // CELLS) if found.total > CELLS else 1,
        failed=[
            (job, first_line(job.error)) for job in found.jobs(phase="failed", limit=SHOWN_FAILED)
        ],
        bars=_bars(seen),
        labels=[time if place % 5 == 0 else "" for place, time in enumerate(times)],
        tips=[
            f"{time}: {each.done:,} done, {each.failed:,} failed"
            for time, each in zip(times, seen.counted, strict=True)
        ],
    )


def _bars(seen: Slots) -> list[list[int]]:
    """What ended, minute by minute; none if nothing did."""
    bars = [[each.done, each.failed] for each in seen.counted]
    return bars if any(map(any, bars)) else []


def _cells(visit: Visit, found: Batch, progress: Progress) -> list[tuple[str, str]]:
    """A cell for each member where their rows are all there, else by the counters alone."""
    if 0 < found.total <= CELLS:
        with visit.app.wiring.engine.database.reading() as tx:
            rows = tx.query(BATCHES.states, {"batch": found.id, "wanted": CELLS})
        if len(rows) == found.total:
            return [_cell(*row) for row in rows]
    counts = [("done", progress.done), ("fail", progress.failed), ("gone", progress.cancelled)]
    counts += [("run", progress.running), ("wait", progress.waiting)]
    each = max(1, -(-found.total // CELLS))
    return [(state, "") for state, count in counts for _ in range(-(-count // each))]


def _cell(job: int, state: str, worker: int | None) -> tuple[str, str]:
    shown = {"done": "done", "failed": "fail", "cancelled": "gone"}.get(state)
    if shown is None:
        shown = "wait" if worker is None else "run"
    return shown, "" if shown in {"done", "wait"} else f"job {job}"


# --- acting


def retry(visit: Visit) -> Response:
    """Open the failed members again."""
    identifier, engine = number(visit, "id"), visit.app.wiring.engine

    def act(tx: Tx) -> str:
        verbs.find(tx, identifier)
        return f"{engine.retry_batch(tx, identifier, then=False)} opened again"

    return acted(visit, "retry failed", f"batch {identifier}", act, "{}")


def cancel(visit: Visit) -> Response:
    """End every member that has not ended, after asking."""
    found = visit.app.get_batch(number(visit, "id"))
    progress = found.progress()
    if not sure(visit):
        return ask(
            *(visit, f"Cancel the rest of {found.name or found.id}?"),
            "What was cancelled can be opened again job by job, while it is kept.",
            effects=[
                ("cancelled", f"{progress.waiting:,} that wait will not run"),
                ("running", f"{progress.running:,} that run are told to stop by their workers"),
                ("done", f"{_ended(found):,} that have ended stay as they are"),
                *(
                    [("ready", f"Its follow-up {found.then} runs when the last has ended")]
                    * bool(found.then)
                ),
            ],
            fields=[("id", found.id)],
            crumb=(f"/batches/{found.id}", found.name or "Batch"),
            keep="Let it go on",
            button="Cancel the rest",
        )
    why = redact(visit.sent("why")) or "its batch was cancelled"
    count = written(visit, "cancel", f"batch {found.id}", lambda: found.cancel(why))
    return told(visit, f"batch {found.id}", f"{count} cancelled", "{}")


LIVE = regions("batches", batches=1.0)
ONE = regions("batches", head=1.0, progress=0.5, detail=1.0)
PAGES = [
    OwnPage("/batches", batches, live=LIVE, nav=NavItem("Batches", "batches", "Work", key="b")),
    OwnPage("/batches/{id:int}", batch, live=ONE),
    OwnPage("/batches/retry", retry, "operate", "POST"),
    OwnPage("/batches/cancel", cancel, "operate", "POST"),
]
