"""Bugs of shapes, twice: planted into the engine, and into a history, for the checker to find.

A plant patches the source in memory; `shapeprogram.py` enters those that PROOF_PLANT names. A spoil takes
what a storm has left, which holds, and changes one thing in it that must not be.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

from duework.kernel.batches import counters
from duework.kernel.paces.pace import Rate
from duework.shapes.chains.verbs import Chains
from duework.shapes.deliveries.channels import Channel
from duework.shapes.objects import store as object_store
from duework.shapes.outboxes.runner import OutboxRunner
from duework.shapes.schedules import row as schedule_row
from proof.plants import PLANTS as KERNEL_PLANTS
from proof.shapecheck import check
from proof.shapehistory import Shapes, Start
from proof.shapework import PERIOD_MS, RATE


class Plant(NamedTuple):
    """How to put it in, what a line that finds it says, and the work in which it shows."""

    enter: Callable[[], contextlib.AbstractContextManager[Any]]
    number: str
    about: str
    shapes: str


def _forgotten_slots() -> Any:
    """A fire that is late makes a job of the newest slot only."""
    due_slots = schedule_row._due_slots
    return mock.patch.object(
        schedule_row, "_due_slots", lambda row, planned, now: due_slots(row, planned, now)[-1:]
    )


def _early_follow_up() -> Any:
    """A batch is thought to be over when one member is left."""
    concluded = counters._concluded

    def early(tx: Any, batch: int, row: Any, now: int) -> bool:
        if row.open == 1 and row.settled is None and not row.fired:
            counters._followed(tx, row, now)
        return concluded(tx, batch, row, now)

    return mock.patch.object(counters, "_concluded", early)


def _page_of_the_cancelled() -> Any:
    """What a page did is forgotten if its chain was cancelled meanwhile."""
    completed = Chains._completed

    def only_active(self: Chains, tx: Any, chain: Any, job: Any, ending: Any) -> None:
        if chain.state == "active":
            completed(self, tx, chain, job, ending)

    return mock.patch.object(Chains, "_completed", only_active)


def _sent_again() -> Any:
    """A send of which nobody knows the outcome is sent again, whoever it goes to."""
    return mock.patch.object(Channel, "resends", property(lambda _: True))


def _always_remembered() -> Any:
    """The same of an outbox: its upstream is thought to remember keys, and does not."""

    def submit_again(_: OutboxRunner, *__: Any) -> bool:
        return True

    def raised(
        self: OutboxRunner, run: Any, what: int, go: Any, error: Exception, *, harmless: bool
    ) -> Any:
        if isinstance(error, self._outbox.lost):
            raise error
        return original(self, run, what, go, error, harmless=harmless)

    original = OutboxRunner.raised
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(OutboxRunner, "_remembered", submit_again))
    stack.enter_context(mock.patch.object(OutboxRunner, "raised", raised))
    return stack


def _own_rate() -> Any:
    """Everybody begins with a full rate of their own."""
    turn = Rate.bring_up

    def forgetful(self: Rate, state: Any, now: int) -> None:
        turn(self, state, now)
        state.update(used=0, level=self._cap, open=0)

    return mock.patch.object(Rate, "bring_up", forgetful)


def _no_versions() -> Any:
    """The last one to commit an object wins."""
    admitted = object_store._admitted

    def all_of_them(tx: Any, changes: Any, engine: Any, now: int) -> Any:
        answers, ids = admitted(tx, changes, engine, now)
        known = [change.base.id for change in changes]
        return [
            None if i and a is object_store.LOST else a for i, a in zip(known, answers, strict=True)
        ], ids

    return mock.patch.object(object_store, "_admitted", all_of_them)


def _no_object_lease() -> Any:
    """An async method writes, whether it holds its object or not."""
    return mock.patch.object(object_store, "_holds", return_value=True)


PLANTS: dict[str, Plant] = {
    "a late fire makes up for one slot only": Plant(
        _forgotten_slots, "I9", "was never fired", "batch"
    ),
    "a follow-up does not wait for the last member": Plant(
        _early_follow_up, "I15", "batch", "batch"
    ),
    "a page is forgotten if its chain was cancelled": Plant(
        _page_of_the_cancelled, "I14", "chain", "chain"
    ),
    "a channel without a key is sent again": Plant(
        _sent_again, "I11", "of blind was sent", "notify"
    ),
    "an outbox without a memory is sent again": Plant(
        _always_remembered, "I11", "of slip was sent", "slip"
    ),
    "a rate is each worker's own": Plant(_own_rate, "I15", "jobs of a rate", "paced"),
    "objects are committed whatever their version": Plant(_no_versions, "I12", "", "add,call"),
}
# Those that need somebody who stands still for longer than a lease.
STALE: dict[str, Plant] = {
    "a settle does not look at the fence": Plant(
        KERNEL_PLANTS["a settle does not look at the fence"], "I14", "chain", "chain"
    ),
    "an async method writes without its lease": Plant(
        _no_object_lease, "I12", "was inside", "visit"
    ),
}


def found(plant: Plant, violations: list[str]) -> bool:
    return any(
        each.partition(" ")[0].startswith(plant.number) and plant.about in each
        for each in violations
    )


# --- bugs in a history


def _some_log(seen: Shapes) -> list[tuple[str, str]]:
    return max((log for log in seen.logs.values() if log is not None), key=len)


def _swap(seen: Shapes) -> None:
    """Let the last call whose place somebody was told, and another, change places."""
    log, told = _some_log(seen), {op["value"] for op in seen.acknowledged("add")}
    adds = [place for place, each in enumerate(log) if each[0] == "add"]
    one = next(place for place in reversed(adds) if log[place][1] in told)
    two = next(place for place in adds if place != one)
    log[one], log[two] = log[two], log[one]


def _stale_leave(seen: Shapes) -> None:
    """Somebody leaves once more, after another came."""
    log = _some_log(seen)
    left = next(each for each in log if each[0] == "leave")
    log += [("enter", "another"), left]


def _silent(seen: Shapes) -> None:
    """An alarm rang before it was set."""
    log = _some_log(seen)
    log.append(next(each for each in log if each[0] == "set"))


def _crowd(seen: Shapes) -> None:
    """One more start than the rate in some period, by a process that was never disturbed."""
    period = max(start.now for start in seen.starts) // PERIOD_MS + 10
    seen.starts += [Start(-each, 1, period * PERIOD_MS + each, 0) for each in range(RATE + 1)]


def _counts_more(seen: Shapes) -> None:
    batch = seen.batches[0]
    seen.batches[0] = batch._replace(done=batch.done + 1)


def _first_sent(seen: Shapes, box: str) -> tuple[str, int]:
    return next(n for n, told in seen.upstream.items() if n[0] == box and ("took" in dict(told)))


def _takes_again(seen: Shapes, box: str, key: str) -> None:
    seen.upstream[_first_sent(seen, box)].append(("took", key))


def _rolled_back(seen: Shapes) -> None:
    n = next(op["n"] for op in seen.ops if op["shape"] == "undone")
    seen.upstream["mail", n] = [("asked", "m"), ("took", "m")]


def _no_outcome(seen: Shapes) -> None:
    seen.channels[0] = seen.channels[0]._replace(state="sending", send_started=1)


def _stays_queued(seen: Shapes) -> None:
    seen.posts[0] = seen.posts[0]._replace(state="queued", unsure_since=1)


def _unsure_with_a_key(seen: Shapes) -> None:
    rows = enumerate(seen.posts)
    place = next(p for p, row in rows if row.outbox == "mail" and row.mood != "refused")
    seen.posts[place] = seen.posts[place]._replace(state="unsure")


def _loses_an_add(seen: Shapes) -> None:
    op = seen.acknowledged("add")[0]
    log = seen.logs[op["key"]]
    assert log is not None
    log.remove(("add", op["value"]))


def _repeats_an_add(seen: Shapes) -> None:
    log = _some_log(seen)
    log.append(next(each for each in log if each[0] == "add"))


def _fewer_pages(seen: Shapes) -> None:
    """The second page of a chain left nothing."""
    gone = next(each for each in seen.page_traces if each[1] == 2)
    seen.page_traces.remove(gone)


def _two_active(seen: Shapes) -> None:
    chain, key, _ = seen.turns[0]
    seen.turns.insert(1, (chain + 1, key, "active"))


SPOILS: dict[str, tuple[str, Callable[[Shapes], None]]] = {
    "a slot is fired twice": ("I9", lambda seen: seen.fired.append(seen.fired[0])),
    "a slot is not fired": ("I9", lambda seen: seen.fired.pop(len(seen.fired) // 2) and None),
    "a slot's effect is there twice": ("I9", lambda seen: seen.ticks.append(seen.ticks[0])),
    "a counter is not a recount": ("I15", _counts_more),
    "a batch has two follow-ups": (
        "I15",
        lambda seen: seen.closings.append((1, seen.closings[0][1], "done")),
    ),
    "a batch has no follow-up": ("I15", lambda seen: seen.closings.clear()),
    "a page is left out": ("I14", _fewer_pages),
    "a page is done twice": ("I14", lambda seen: seen.page_traces.insert(0, seen.page_traces[0])),
    "two chains of one key are active": ("I14", _two_active),
    "a message is sent under a second key": ("I11", lambda s: _takes_again(s, "mail", "new")),
    "a message is taken twice where keys are not known": (
        "I11",
        lambda seen: _takes_again(seen, "slip", _taken_key(seen, "slip")),
    ),
    "a channel is sent twice where keys are not known": (
        "I11",
        lambda seen: _takes_again(seen, "blind", "-"),
    ),
    "a message of a rolled back transaction is sent": ("I11", _rolled_back),
    "a mark has no outcome": ("I11", _no_outcome),
    "a message stays queued": ("I11", _stays_queued),
    "a message is unsure where keys are honoured": ("I11", _unsure_with_a_key),
    "one more starts than the rate": ("I15", _crowd),
    "an acknowledged call is lost": ("I12", _loses_an_add),
    "a call is there twice": ("I12", _repeats_an_add),
    "two calls change places": ("I12", _swap),
    "an async method writes after another came": ("I12", _stale_leave),
    "an alarm does not ring": ("I12", _silent),
    "a job of an object is not there": ("I12", lambda seen: seen.receipts.clear()),
}


def _taken_key(seen: Shapes, box: str) -> str:
    return dict(seen.upstream[_first_sent(seen, box)])["took"]


def spoiled(seen: Shapes) -> dict[str, bool]:
    """Each change of a history that holds, and whether the checker has found it."""
    answers: dict[str, bool] = {}
    for name, (number, spoil) in SPOILS.items():
        wrong = copy.deepcopy(seen)
        try:
            spoil(wrong)
        except (StopIteration, IndexError, ValueError):
            # There was nothing of the kind in it; a floor says how many there must be.
            continue
        answers[name] = any(each.startswith(f"{number} ") for each in check(wrong))
    return answers
