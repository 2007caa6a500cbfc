"""Deliveries: one job, several channels; a channel that was sent is never sent again.

The body of a delivery runs once and says which channels get what. That is stored in the settle that
also enqueues one job for each channel, so the channels are sent in parallel, each with its own pace,
timeout and kill. The delivery itself sleeps meanwhile: the channel that settles last moves its due to
now. It then judges them all, and its own retries only send again what failed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Unpack

from duework.averbs import averb
from duework.clock import FOREVER
from duework.codec import decode
from duework.db.database import Tx
from duework.errors import NotFound, UsageError
from duework.kernel.job import DAY, LaneName, NewJob
from duework.kernel.moves import never_expire
from duework.kernel.outcomes import Fail, Outcome, Retry, Snooze
from duework.kernel.run import Run, buffer_of
from duework.kernel.tasks import Definition
from duework.kernel.transaction import Transaction, inside
from duework.shapes.deliveries import SHAPE
from duework.shapes.deliveries.channels import (
    DELIVERIES,
    KIND,
    Channel,
    Partial,
    Place,
    Senders,
    Sending,
    advances,
    classify,
    forget_starts,
    sending,
    to_resend,
)
from duework.shapes.graph import Node
from duework.shapes.shape import CHUNK, Hooks, Shape, doing, in_chunks
from duework.task import Task, Using

if TYPE_CHECKING:
    from duework.handles import Job
    from duework.kernel.engine import Engine
    from duework.kernel.job import Ending, LockedJob
    from duework.typed.options import EnqueueOptions
    from duework.wiring import Wiring

P = ParamSpec("P")

# How long a delivery sleeps while its channels are sent; the last of them wakes it, if it knows the code.
WATCH_MS = 600_000
# What a delivery gives back whose body chose no channel.
NOTHING: dict[str, Any] = {"outcome": "nothing", "sent": [], "failed": {}, "unsure": {}}


class Delivery(Task[P, Any, Any]):
    """A task whose body chooses channels and payloads; made by `@app.delivery(…)`."""

    def __init__(
        self, task: Task[..., Any, Any], body: Callable[..., Any], plan: DeliveryShape
    ) -> None:
        super().__init__(task.definition, task.contents)
        self._body = body
        self._plan = plan
        self.__wrapped__ = body
        self.__doc__ = body.__doc__
        self.__name__ = body.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._body(*args, **kwargs)

    def using(self, **options: Unpack[EnqueueOptions]) -> Using[P, Any]:
        """Options for the next enqueue, as of any task."""
        if options.get("when_running") is not None:
            raise UsageError("a delivery chooses its channels once: it takes no when_running=")
        return super().using(**options)

    def channels(self, job: Job[Any] | int) -> list[Sending]:
        """What became of each channel of a delivery; empty before its body has run."""
        return self._plan.channels(job if isinstance(job, int) else job.id)

    achannels = averb(channels)


class DeliveryShape(Hooks):
    """One declared delivery: what happens from the body's choice to the verdict."""

    shape: ClassVar[Shape] = SHAPE

    def __init__(self, channels: Mapping[str, Channel], partial: Partial) -> None:
        self.senders = Senders(channels, lambda: self._engine)
        self._partial = partial
        self._wiring: Wiring | None = None
        self._tasks: dict[str, Definition] = {}
        # The tasks that send, and their channels.
        self.names: dict[str, str] = {}

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring
        wiring.registry.forget_starts[KIND] = forget_starts

    def declared(self) -> list[Node]:
        """Its channels, by the tasks that send them."""
        return [Node("channel", task, name, (f"task:{task}",)) for task, name in self.names.items()]

    def add(self, channel: str, task: Definition) -> None:
        """The task whose jobs send a channel."""
        self._tasks[channel] = task
        self.names[task.name] = channel

    @property
    def _engine(self) -> Engine:
        if self._wiring is None:
            raise UsageError("this delivery belongs to a Part that no App has included yet")
        return self._wiring.engine

    def channels(self, job: int) -> list[Sending]:
        with self._engine.database.reading() as tx:
            return [sending(row) for row in tx.query(DELIVERIES.channels, {"job": job})]

    def choose(self, chosen: Any) -> dict[str, str] | Outcome:
        """What the body gave back, as the stored payloads of its channels; needs no database."""
        if isinstance(chosen, Outcome):
            return chosen
        try:
            return self._payloads({} if chosen is None else chosen)
        except UsageError as error:
            # Raised, so that nothing of the attempt is written.
            # The text says it all; as its cause it would be told twice.
            raise Fail(str(error)) from None

    def around_child(self, run: Run, child: Callable[[], Ending]) -> Any:
        """The worker's side of a body that has a process of its own; a verdict needs none."""
        if channels := self.channels(run.job.id):
            return self.go_on(run, channels)
        ending = child()
        if ending.kind != "done":
            return ending
        for effect in ending.effects:
            buffer_of(run).add(effect)
        return self.begin(run, decode(ending.result or "{}"))

    def begin(self, run: Run, payloads: dict[str, str] | Outcome) -> Any:
        """Store what the body chose, and send it; in one commit with what else the body wrote."""
        if isinstance(payloads, Outcome):
            return payloads
        if not payloads:
            return NOTHING
        job, now = run.job, run.now
        new = [self._new_job(run, name, text, job.expires) for name, text in payloads.items()]

        def store(tx: Tx) -> None:
            children = self._engine.enqueue(tx, new)
            for (name, text), child in zip(payloads.items(), children, strict=True):
                row = {"job": job.id, "channel": name, "key": f"{run.key}:{name}"}
                row |= {"payload": text, "child": child.id, "expires": job.expires}
                tx.query(DELIVERIES.insert, {**row, "due": now + DAY})
            if job.expires is not None:
                never_expire(tx, job.id)

        buffer_of(run).add(store)
        return Snooze(WATCH_MS / 1000)

    def go_on(self, run: Run, channels: Sequence[Sending]) -> Any:
        """The body has run: judge what was sent, or send once more what failed."""
        if under_way := [each for each in channels if each.state == "sending"]:
            return self._wait(run, under_way)
        if any(each.concluded for each in channels if each.state == "failed"):
            # The failure was counted, so this is a retry; the first one after a revival is by hand.
            again = to_resend(channels, by_hand=run.job.failures == 0)
            if again:
                return self._another_round(run, again)
        return self._conclude(run, channels)

    def _conclude(self, run: Run, channels: Sequence[Sending]) -> Any:
        failed = [each for each in channels if each.state == "failed"]
        if failed:
            # A later run, by a retry or by hand, sends these again.
            buffer_of(run).add(doing(DELIVERIES.concluded, {"job": run.job.id}))
        if advances([each.state for each in channels], self._partial):
            return _result(channels)
        why = "; ".join(f"{each.channel}: {_first_line(each.error)}" for each in failed)
        return Retry(None, why) if to_resend(channels, by_hand=False) else Fail(why)

    def _another_round(self, run: Run, again: Sequence[Sending]) -> Outcome:
        new = [self._new_job(run, each.channel, each.payload, each.expires) for each in again]

        def resend(tx: Tx) -> None:
            for each, child in zip(again, self._engine.enqueue(tx, new), strict=True):
                values = {"job": run.job.id, "channel": each.channel, "was": "failed"}
                tx.query(DELIVERIES.again, {**values, "child": child.id})
                self._say_unknown(tx, Place(run.job.id, each.channel, child.id))

        buffer_of(run).add(resend)
        return Snooze(WATCH_MS / 1000)

    def _wait(self, run: Run, under_way: Sequence[Sending]) -> Outcome:
        """Nobody woke us: a channel may have ended without our code being there to see it."""
        gone = [each for each in under_way if each.child_state != "open"]
        if not gone:
            self._say_waiting(run, under_way)
            return Snooze(WATCH_MS / 1000)

        def finish(tx: Tx) -> None:
            for each in gone:
                place = Place(run.job.id, each.channel, each.child)
                why = "the job that sends it has ended unseen"
                self.senders.finish(tx, place, each.send_started, why, given_up=True)

        buffer_of(run).add(finish)
        return Snooze(0)

    def _say_waiting(self, run: Run, under_way: Sequence[Sending]) -> None:
        """Let those channels say so that wait for another version of the code."""
        unknown = [each for each in under_way if each.channel not in self._tasks]

        def note(tx: Tx) -> None:
            for each in unknown:
                self._say_unknown(tx, Place(run.job.id, each.channel, each.child))

        if unknown:
            buffer_of(run).add(note)

    def _say_unknown(self, tx: Tx, place: Place) -> None:
        if place.channel not in self._tasks:
            why = f"it waits for a worker that knows the channel {place.channel}; this one does not"
            where = {"job": place.job, "channel": place.channel, "child": place.child}
            tx.query(DELIVERIES.waits, {**where, "error": why})

    def _payloads(self, chosen: Any) -> dict[str, str]:
        """The body's choice as the stored arguments of its senders; refuses what cannot be sent."""
        if not isinstance(chosen, Mapping):
            raise UsageError(
                f"a delivery's body gives payloads by channel, or None, not {chosen!r:.100}"
            )
        known = self._tasks.keys()
        if unknown := sorted(str(name) for name in chosen if name not in known):
            message = (
                f"there is no channel {', '.join(unknown)}; there are: {', '.join(sorted(known))}"
            )
            raise UsageError(message)
        found = {}
        for name in sorted(chosen):
            task, payload = self._tasks[name], chosen[name]
            if len(inspect.signature(task.function).parameters) == 2:  # noqa: PLR2004 - and the run
                found[name] = task.arguments.encode((payload,), {})
            elif isinstance(payload, Mapping):
                found[name] = task.arguments.encode((), payload)
            else:
                message = f"{name} takes a mapping of its arguments by name, not {payload!r:.100}"
                raise UsageError(message)
        return found

    def _new_job(self, run: Run, channel: str, payload: str, expires: int | None) -> NewJob:
        job = run.job
        # By name: this version may have the channel no more. Then a worker that has it sends it.
        lane = LaneName(job.queue, f"{job.task}.{channel}", job.priority)
        return NewJob(lane, payload, run.now, expires=expires, owner=f"{KIND}:{job.id}")

    def ended(self, tx: Transaction, job: Any, outcome: str) -> None:
        """A reaction: the channels of a delivery that is cancelled are not sent any more."""
        if outcome != "cancelled":
            return
        raw, why = inside(tx), "its delivery was cancelled"
        for channel, child, send_started in raw.query(DELIVERIES.under_way, {"job": job.id}):
            try:
                self._engine.cancel(raw, [(child, why)])
            except NotFound:
                place = Place(job.id, channel, child)
                self.senders.finish(raw, place, send_started, why, given_up=True)

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        if (channel := self.names.get(job.task) or self._once_ours(job.task)) is not None:
            self.senders.settled(tx, channel, job, ending)

    def _once_ours(self, task: str) -> str | None:
        """The channel, if this is the task of one that another version of this delivery has."""
        channel, sender = next(iter(self._tasks.items()))
        own = sender.name.removesuffix(channel)
        theirs = self._engine.registry.get(task) is not None or not task.startswith(own)
        return None if theirs else task.removeprefix(own)

    def prune(self) -> None:
        """Delete the channels of deliveries that are gone."""
        in_chunks(self._engine, self._look)

    def _look(self, tx: Tx, items: list[None]) -> Sequence[int]:
        now, count = self._engine.clock.now(), 0
        for job, channel, state, due in tx.query(
            DELIVERIES.to_look_at, {"now": now, "wanted": CHUNK}
        ):
            count += 1
            where = {"job": job, "channel": channel}
            if state is None:
                tx.query(DELIVERIES.delete, where)
            else:
                kept = due if state != "open" and due < FOREVER else now
                tx.query(DELIVERIES.look_again, {**where, "due": max(kept, now) + DAY})
        return [count for _ in items]


def _result(channels: Sequence[Sending]) -> dict[str, Any]:
    """What a delivery that is done gives back."""

    def of(state: str) -> dict[str, str]:
        return {each.channel: _first_line(each.error) for each in channels if each.state == state}

    outcome = classify([each.state for each in channels])
    return {
        "outcome": outcome,
        "sent": sorted(of("sent")),
        "failed": of("failed"),
        "unsure": of("unsure"),
    }


def _first_line(error: str | None) -> str:
    return (error or "").partition("\n")[0]
