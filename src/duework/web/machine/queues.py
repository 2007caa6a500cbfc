"""Queues: what each of them does and what holds it; pause, resume, purge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from duework.db.database import Tx
from duework.errors import NotFound, UsageError
from duework.health.activity import Slots, per_queue, slots_of
from duework.health.status import TaskStatus, ours
from duework.kernel.job import OWN_QUEUE
from duework.web.acts import acted, ask, sure, told, written
from duework.web.filters import clock, counted
from duework.web.lists import show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import LATER, SOON, Undo, Visit


@dataclass(frozen=True, slots=True)
class QueueLine:
    """The tasks of one queue, and all of them together."""

    name: str
    tasks: tuple[TaskStatus, ...]
    limit: int | None
    paused: bool
    ended: Sequence[int]
    late_ms: int

    @property
    def ready(self) -> int:
        return sum(each.ready for each in self.tasks)

    @property
    def waiting(self) -> int:
        return sum(each.waiting for each in self.tasks)

    @property
    def running(self) -> int:
        return sum(each.running for each in self.tasks)

    @property
    def lag(self) -> int | None:
        return max((each.lag for each in self.tasks if each.lag is not None), default=None)

    @property
    def late(self) -> bool:
        return any((each.free_for or 0) > self.late_ms for each in self.tasks)

    @property
    def tone(self) -> str:
        return "fail" if self.unknown else "warn" if self.paused or self.late else "done"

    @property
    def unknown(self) -> list[str]:
        return [
            each.task for each in self.tasks if each.known is False and each.ready + each.waiting
        ]

    @property
    def held(self) -> TaskStatus | None:
        """The task that a pace holds back the longest."""
        found = [each for each in self.tasks if each.held_until is not None]
        return max(found, key=lambda each: each.held_until or 0, default=None)


def _lines(visit: Visit) -> tuple[list[QueueLine], Sequence[str]]:
    status = visit.app.status()
    with visit.app.wiring.engine.database.reading() as tx:
        ended = per_queue(tx, now=status.now)
    tasks: dict[str, list[TaskStatus]] = {}
    for each in ours(status):
        tasks.setdefault(each.queue, []).append(each)
    limits = visit.app.wiring.registry.queue_limits
    names = dict.fromkeys([*tasks, *limits, *(each for each in status.paused if each != "*")])
    lines = [
        QueueLine(
            name,
            tuple(tasks.get(name, ())),
            limits.get(name),
            name in status.paused or "*" in status.paused,
            ended.get(name, [0] * 12),
            status.late_ms,
        )
        for name in names
        if name != OWN_QUEUE
    ]
    lines.sort(key=lambda line: (-(line.lag or 0), -line.ready, line.name))
    moves = any(line.running or line.ready for line in lines)
    visit.again = SOON if moves else LATER if any(any(line.ended) for line in lines) else None
    return lines, status.paused


def queues(visit: Visit) -> Response:
    """Every queue, the one that is furthest behind first."""
    lines, paused = _lines(visit)
    return show(
        *(visit, "queues.html"),
        rows=lines,
        paused=paused,
        stopped=[line for line in lines if line.paused],
        unknown=[(line.name, line.unknown[0]) for line in lines if line.unknown],
        late=[line for line in lines if line.late],
        late_ms=visit.app.wiring.late_ms,
    )


def queue(visit: Visit) -> Response:
    """One queue: its tasks, and what was done in the last hour."""
    name = _name(visit)
    lines, paused = _lines(visit)
    found = next((line for line in lines if line.name == name), None)
    if found is None:
        raise NotFound(f"There is no queue {name} with jobs: it is there from its first one on.")
    with visit.app.wiring.engine.database.reading() as tx:
        seen = slots_of(tx, now=visit.app.now(), queue=name)
    gates = visit.app.wiring.registry.queue_paces.get(name, ())
    return show(
        *(visit, "queue.html"),
        heading=name,
        line=found,
        everything="*" in paused,
        late_ms=visit.app.wiring.late_ms,
        paces=[gate.name for gate in gates],
        total=sum(each.done for each in seen.counted),
        bad=sum(each.failed for each in seen.counted),
        **drawn_slots(visit, seen),
    )


def drawn_slots(visit: Visit, seen: Slots, every: int = 15) -> dict[str, Any]:
    """What `stacked` needs for bars of what was done and what failed."""
    times = [
        clock(seen.first + place * seen.step, visit.zone)[:5] for place in range(len(seen.counted))
    ]
    return {
        "bars": [[each.done, each.failed] for each in seen.counted],
        "labels": [time if place % every == 0 else "" for place, time in enumerate(times)],
        "tips": [
            f"{time}: {each.done:,} done, {each.failed:,} failed"
            for time, each in zip(times, seen.counted, strict=True)
        ],
    }


# --- acting


def _name(visit: Visit) -> str:
    name = text(visit, "queue")
    if not name:
        raise HTTPException(400, "Say which queue.")
    return name if name == "*" else visit.app.queue(name).name


def pause(visit: Visit) -> Response:
    """Start no more jobs of a queue; to pause everything is asked twice."""
    name = _name(visit)
    return ask_pause(visit) if name == "*" and not sure(visit) else _switch(visit, "pause", name)


def resume(visit: Visit) -> Response:
    return _switch(visit, "resume", _name(visit))


def _switch(visit: Visit, what: str, name: str) -> Response:
    engine = visit.app.wiring.engine

    def act(tx: Tx) -> str:
        (engine.pause if what == "pause" else engine.resume)(tx, [name])
        return f"{what}d"

    shown = "Everything" if name == "*" else f"Queue {name}"
    back = {"pause": "resume", "resume": "pause"}[what]
    # To pause everything is asked first: that is not taken back by one button.
    undo = None if (name, back) == ("*", "pause") else Undo(f"/queues/{back}", [("queue", name)])
    return acted(visit, what, f"queue {name}", act, f"{shown} is {{}}", undo)


def ask_pause(visit: Visit) -> Response:
    name = _name(visit)
    what = "everything" if name == "*" else f"queue {name}"
    return ask(
        *(visit, f"Pause {what}?", "No job starts until it is resumed."),
        effects=[
            ("paused", "Jobs that are due wait, and are kept"),
            ("running", "What runs goes on to its end"),
        ],
        action="/queues/pause",
        fields=[("queue", name)],
        crumb=("/queues", "Queues"),
        keep="Go on working",
        button=f"Pause {what}",
    )


def purge(visit: Visit) -> Response:
    """Cancel whatever of a queue does not run, after typing how much that is."""
    name = _name(visit)
    if name in {"*", OWN_QUEUE}:
        raise UsageError("one queue at a time, and not the engine's own")
    lines, _ = _lines(visit)
    count = next((line.ready + line.waiting for line in lines if line.name == name), 0)
    typed = f"purge {counted(count)}"
    if not sure(visit) or (visit.sent("typed") != typed and not visit.by_program):
        return _ask_purge(visit, name, count, typed)
    gone = written(visit, "purge", f"queue {name}", lambda: visit.app.purge_queue(name))
    return told(visit, f"queue {name}", f"{gone} cancelled", f"{{}} in queue {name}")


def _ask_purge(visit: Visit, name: str, count: int, typed: str) -> Response:
    again = visit.sent("sure") == "yes"
    return ask(
        *(visit, f"Purge queue {name}?"),
        "Its jobs that are ready or wait are cancelled; they are kept as cancelled for a while.",
        effects=[
            ("cancelled", f"{counted(count)} jobs are cancelled, also those enqueued meanwhile"),
            ("running", "What runs goes on to its end"),
            ("done", "Rather not? Pause the queue: its jobs wait and are kept"),
        ],
        fields=[("queue", name)],
        crumb=("/queues", "Queues"),
        keep="Keep them",
        button=f"Purge queue {name}",
        typed=typed,
        wrong=f"That is not “{typed}”: it may have changed meanwhile." if again else "",
    )


LIVE = regions(queues=1.0)
ONE = regions(head=1.0, detail=1.0)
PAGES = [
    OwnPage(
        *("/queues", queues),
        live=LIVE,
        nav=NavItem("Queues", "queues", key="q", place=3, needs=("paused",)),
    ),
    OwnPage("/queues/one", queue, live=ONE),
    OwnPage("/queues/pause", ask_pause, "operate"),
    OwnPage("/queues/pause", pause, "operate", "POST"),
    OwnPage("/queues/resume", resume, "operate", "POST"),
    OwnPage("/queues/purge", purge, "admin", "POST"),
]
