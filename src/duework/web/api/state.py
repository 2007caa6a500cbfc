"""What is going on, by HTTP: the overview, the doctor, and queues that are paused and resumed."""

from __future__ import annotations

from dataclasses import asdict

from duework.db.database import Tx
from duework.web.api.operation import Ask, acts, audited, reads
from duework.web.api.types import (
    CheckLine,
    Checks,
    Listed,
    NeedLine,
    Nothing,
    Overview,
    QueueState,
    TaskLine,
    WorkerLine,
)


def overview(ask: Ask) -> Overview:
    """What needs somebody, and how many jobs of which tasks wait and run."""
    seen = ask.app.status()
    return Overview(
        now=seen.now,
        tasks=[
            TaskLine(
                *(line.queue, line.task, line.ready, line.waiting, line.running),
                *(line.lag, line.paused, line.known),
            )
            for line in seen.tasks
        ],
        failed=seen.failed,
        paused=list(seen.paused),
        workers=[
            WorkerLine(str(each.id), each.host, each.pid, each.started, each.seen, each.running)
            for each in seen.workers
        ],
        needs=[
            NeedLine(each.kind, each.sentence, each.count, each.oldest, each.command)
            for each in ask.app.needs()
        ],
    )


def doctor(ask: Ask) -> Checks:
    """Whether this database and what is declared on it are fit for work."""
    found = ask.app.admin.doctor()
    return Checks(
        all(each.fitness == "ok" for each in found), [CheckLine(**asdict(each)) for each in found]
    )


def queues(ask: Ask) -> Listed[QueueState]:
    """Every queue that has had jobs, and whether it is paused."""
    seen = ask.app.status()
    names = sorted({line.queue for line in seen.tasks} | set(seen.paused))
    return Listed([QueueState(name, name in seen.paused) for name in names], None)


def pause(ask: Ask) -> QueueState:
    """Start no more jobs of a queue, or of all: `*`."""
    return _switch(ask, paused=True)


def resume(ask: Ask) -> QueueState:
    """Start jobs of a queue again."""
    return _switch(ask, paused=False)


def _switch(ask: Ask, *, paused: bool) -> QueueState:
    name, engine = ask.path["queue"], ask.app.wiring.engine
    if name != "*":
        ask.app.queue(name)

    def act(tx: Tx) -> str:
        (engine.pause if paused else engine.resume)(tx, [name])
        return "paused" if paused else "resumed"

    audited(ask, "pause" if paused else "resume", f"queue {name}", act)
    return QueueState(name, paused)


OPERATIONS = (
    reads("/overview", overview, Overview),
    reads("/doctor", doctor, Checks),
    reads("/queues", queues, Listed[QueueState]),
    acts("/queues/{queue}/pause", pause, QueueState, Nothing),
    acts("/queues/{queue}/resume", resume, QueueState, Nothing),
)
