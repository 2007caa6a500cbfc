"""What needs somebody: one list for pages, `/health`, `duework status` and Python, the most urgent first.

It is made from rows and counters with bounds, so a look costs the same however many jobs wait or have
failed. What waits for a pace, as planned, needs nobody. Since when a queue is paused no row tells; how
long its oldest job has been ready one does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.db.queries import load
from duework.health.status import asked_for
from duework.health.why import Around, absent, not_writable, why
from duework.health.words import MINUTE, count, first_line, length
from duework.kernel.engine import OWN_TASKS
from duework.kernel.job import OWN_QUEUE, POISON, LaneName
from duework.kernel.lanes import JOBS
from duework.kernel.machine.processes import Process
from duework.kernel.operate import OPERATE

NEEDS = load("duework.health", "needs")

Kind = Literal[
    "not writable",
    "no worker",
    "unknown task",
    "late",
    "failing",
    "paused",
    "poison",
    "unsure",
]
Tone = Literal["bad", "warn", "unsure"]

# So many rows are counted, or looked at, for one need.
BOUND = 1000
PAUSED_MS = 10 * MINUTE

# Ids, addresses and numbers, by which errors differ that are the same.
_BLANKED = re.compile(
    r"0x[0-9a-f]+|\b(?=[a-f-]*\d)[0-9a-f]{6,}(?:-[0-9a-f]{4,})*\b|\d+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that somebody should look at."""

    kind: Kind
    sentence: str
    # How many jobs or sends, counted up to 1,000; and since when the oldest, in ms since 1970.
    count: int = 0
    oldest: int | None = None
    # What to type next.
    command: str = ""
    # What it is about, where that is one.
    task: str = ""
    queue: str = ""

    @property
    def tone(self) -> Tone:
        """`bad` if nothing happens by itself."""
        if self.kind == "unsure":
            return "unsure"
        return "warn" if self.kind in {"late", "paused"} else "bad"


@dataclass(frozen=True, slots=True)
class _Head:
    """A lane with a job that is ready, and since when."""

    lane: int
    name: LaneName
    due: int
    since: int


def needs(tx: Tx, around: Around) -> list[Need]:
    """Look once."""
    tx.query(OPERATE.in_order, {})
    return list(_found(tx, around))


def _found(tx: Tx, around: Around) -> Iterator[Need]:
    if around.broken is not None:
        yield Need("not writable", not_writable(around.broken), command="duework db check")
    every = _lanes(tx)
    lanes = [head for head in every if head.name.queue != OWN_QUEUE]
    unknown = _strangers(lanes, around)
    ready = [head for head in lanes if head.since <= around.now]
    strange = {head.lane for head in unknown}
    flowing = [head for head in ready if head.due <= around.now and head.lane not in strange]
    fires = [head for head in every if head.name.queue == OWN_QUEUE]
    firing = [head for head in fires if max(head.since, head.due) <= around.now]
    without = list(_no_worker(tx, sorted([*flowing, *firing], key=_oldest), around))
    yield from without
    yield from _unknown(tx, unknown)
    if not without:
        yield from _late(tx, "late", flowing, around.late_ms, around)
    failed = tx.query(NEEDS.failed, {"wanted": BOUND})
    yield from _failing([row for row in failed if row[3] < POISON])
    messages = tx.query(NEEDS.messages, {"bound": BOUND})
    yield from _failed_messages(row[1:] for row in messages if row[0] == "failed")
    paused = [head for head in ready if head.due >= FOREVER]
    yield from _late(tx, "paused", paused, PAUSED_MS, around)
    yield from _poison([row for row in failed if row[3] >= POISON])
    yield from _unsure_sends(tx)
    yield from _unsure_messages(row[1:] for row in messages if row[0] == "unsure")


def _lanes(tx: Tx) -> list[_Head]:
    """Lanes with jobs that wait, the oldest first; of the engine's own only those that fire schedules."""
    found = []
    for number, queue, task, priority, tier, share, alone, due, head, _ in tx.query(JOBS.lanes, {}):
        if head is not None and asked_for(queue, task):
            name = LaneName(queue, task, priority, tier, share, alone)
            found.append(_Head(number, name, due, head))
    return sorted(found, key=_oldest)


def _oldest(head: _Head) -> tuple[int, int]:
    return head.since, head.lane


def _strangers(lanes: Sequence[_Head], around: Around) -> list[_Head]:
    """Lanes of tasks that the App which asks does not know; one that knows none cannot tell."""
    known = around.registry.names()
    if all(name.startswith(OWN_TASKS) for name in known):
        return []
    return [head for head in lanes if head.name.task not in known]


def _unknown(tx: Tx, strangers: Sequence[_Head]) -> Iterator[Need]:
    for task in dict.fromkeys(head.name.task for head in strangers):
        heads = [head for head in strangers if head.name.task == task]
        waiting = _count(tx, heads, FOREVER)
        what = "waits" if waiting == 1 else "wait"
        text = (
            f"{count(waiting, BOUND)} of {task} {what}, and this App does not know the task: was it"
            " renamed, or is its module not imported? A worker that knows it may run elsewhere"
        )
        command = f"duework jobs list --task {task}"
        yield Need("unknown task", text, waiting, heads[0].since, command, task)


def _no_worker(tx: Tx, flowing: Sequence[_Head], around: Around) -> Iterator[Need]:
    if not flowing:
        return
    first = flowing[0]
    workers = [Process(*row) for row in tx.query(JOBS.workers, {})]
    if (text := absent(workers, max(first.since, first.due), around)) is not None:
        ready = _count(tx, flowing, around.now)
        whom = "it" if ready == 1 else "them"
        text = f"{count(ready, BOUND)} ready, and nobody to run {whom}. {text}"
        yield Need("no worker", text, ready, first.since, "duework run MODULE:APP")


def _late(
    tx: Tx, kind: Literal["late", "paused"], heads: Sequence[_Head], limit: int, around: Around
) -> Iterator[Need]:
    """The oldest job of these lanes, if it has been ready for too long, and why."""
    late = [head for head in heads if around.now - max(head.since, _moved(head)) > limit]
    if not late:
        return
    first = late[0]
    rows = tx.query(OPERATE.of_lane, {"lane": first.lane, "wanted": 1})
    if not rows:
        return
    job = rows[0][0]
    reason = why(tx, job, around)
    ready = _count(tx, late, around.now)
    waited = length(around.now - first.since)
    # Of one that waits for its turn, for how long has been said.
    rest = reason.sentence.partition("; ")[2] if reason.kind == "in turn" else ""
    because = f"; {rest}" if rest else f". {reason.sentence}"
    text = f"Job {job} of {first.name.task} has been ready for {waited}{because}"
    command = f"duework jobs why {job}"
    if kind == "paused":
        command = f"duework queues resume '{reason.queue or first.name.queue}'"
    queue = reason.queue or first.name.queue
    yield Need(kind, text, ready, first.since, command, first.name.task, queue)


def _moved(head: _Head) -> int:
    """Since when its lane is open; of one that is paused nobody knows."""
    return 0 if head.due >= FOREVER else head.due


def _count(tx: Tx, heads: Sequence[_Head], now: int) -> int:
    lanes = [head.lane for head in heads[:BOUND]]
    return int(tx.query(NEEDS.ready, {"lanes": lanes, "now": now, "bound": BOUND})[0][0])


def blanked(error: str | None) -> str:
    """The first line of an error, without what differs from job to job."""
    return _BLANKED.sub("#", first_line(error)) or "no error is stored"


def _failing(rows: Sequence[tuple[Any, ...]]) -> Iterator[Need]:
    """Jobs that nobody tries again, by task and error; those of which there are most come first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for task, error, settled, _ in rows:
        groups.setdefault((task, blanked(error)), []).append(settled)
    for (task, error), times in sorted(groups.items(), key=lambda each: (-len(each[1]), each[0])):
        number = count(len(times), BOUND)
        text = f"{number} of {task} failed and {_are(times)} not tried again: {error}"
        command = f"duework failed list --task {task}"
        yield Need("failing", text, len(times), min(times), command, task)


def _failed_messages(found: Iterable[tuple[Any, ...]]) -> Iterator[Need]:
    for outbox, messages, since in found:
        if messages:
            are = _are(range(messages))
            text = f"{count(messages, BOUND)} of outbox {outbox} failed and {are} not tried again"
            command = f"duework outboxes list {outbox} --state failed"
            yield Need("failing", text, messages, since, command)


def _are(found: Sequence[object]) -> str:
    return "is" if len(found) == 1 else "are"


def _poison(rows: Sequence[tuple[Any, ...]]) -> Iterator[Need]:
    if rows:
        tasks = sorted({row[0] for row in rows})
        names = ", ".join(tasks[:5])
        jobs, them = ("job is", "it") if len(rows) == 1 else ("jobs are", "them")
        text = f"{count(len(rows), BOUND)} {jobs} poison, crashing what runs {them}: {names}"
        oldest, one = min(row[2] for row in rows), tasks[0] if len(tasks) == 1 else ""
        yield Need("poison", text, len(rows), oldest, "duework failed list", one)


def _did_arrive(number: int, what: str) -> str:
    if number == 1:
        return f"{what} has an unknown outcome: did it arrive?"
    return f"{what}s have an unknown outcome: did they arrive?"


def _unsure_sends(tx: Tx) -> Iterator[Need]:
    """Sends of which nobody can tell whether they arrived."""
    [(sends, oldest)] = tx.query(NEEDS.unsure_sends, {"bound": BOUND})
    if sends:
        text = f"{count(sends, BOUND)} {_did_arrive(sends, 'send')}"
        yield Need("unsure", text, sends, oldest, "duework deliveries list")


def _unsure_messages(found: Iterable[tuple[Any, ...]]) -> Iterator[Need]:
    for outbox, messages, since in found:
        if messages:
            text = f"{count(messages, BOUND)} {_did_arrive(messages, 'message')} (outbox {outbox})"
            command = f"duework outboxes list {outbox} --state unsure"
            yield Need("unsure", text, messages, since, command)
