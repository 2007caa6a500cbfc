"""Channels: how one of them is sent, and what its state says of the delivery.

Before a send, its start is committed under the fence of the job that sends; its outcome is written with
that job's settle. A start without an outcome (a lost reply, a kill inside the send) is unsure: sent
again with the same key where the channel takes one, else left alone and shown.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from duework.codec import ArgumentCodec
from duework.db.database import Tx
from duework.db.queries import load
from duework.durations import Duration, milliseconds
from duework.errors import NotFound, UsageError
from duework.kernel.error_text import describe, said, storable
from duework.kernel.job import NewJob
from duework.kernel.moves import wake
from duework.kernel.outcomes import LOST, FailedPart, Outcome, Retry, Snooze, Throttled
from duework.kernel.run import Run, buffer_of
from duework.kernel.tasks import leads_with
from duework.shapes.deliveries.send import Send, SendWrites, written
from duework.shapes.sends import Refusal, Sends, Wanted
from duework.shapes.shape import doing

if TYPE_CHECKING:
    from duework.kernel.engine import Engine
    from duework.kernel.job import Ending, LockedJob

DELIVERIES = load("duework.shapes.deliveries", "deliveries")

# The owner of a job that sends is `delivery:` and the delivery's job.
KIND = "delivery"

# When a delivery that could not be woken is woken again.
NUDGE_MS = 1000

Partial = Literal["advance", "retry-failed"]
Verdict = Literal["success", "partial", "failure"]
ChannelState = Literal["sending", "sent", "failed", "unsure"]


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to reach somebody: `send(payload)`, or `send(payload, key)` if the other side takes one.

    `send` may also take several arguments; the payload is then a mapping of them by name. A first
    parameter annotated `Send` gives it the send itself: secrets, and rows that commit with the outcome.
    It is sent when it returns, and failed when it raises. An error in `lost` means
    that nobody can tell; then it is sent again with the same key, or, if it takes none,
    `unsure="skip"` (the default) leaves it alone and `unsure="resend"` risks a second one.
    """

    send: Callable[..., Any]
    timeout: Duration = "10s"
    pace: Any = None
    unsure: Literal["skip", "resend"] | None = None
    lost: tuple[type[BaseException], ...] = LOST

    def __post_init__(self) -> None:
        if not callable(self.send):
            raise UsageError(f"a channel needs a function that sends, not {self.send!r:.100}")
        if self.unsure not in (None, "skip", "resend"):
            raise UsageError("unsure= is 'skip', 'resend' or left out")
        milliseconds(self.timeout)

    def current(self) -> Callable[..., Any]:
        """The function as its name is bound now: whoever patches it means the next send.

        One of the same name that was defined after it is another one, and not meant.
        """
        found: Callable[..., Any] | None = _bound(self.send)
        theirs = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
        if (
            found is None
            or not callable(found)
            or theirs == (self.send.__module__, self.send.__qualname__)
        ):
            return self.send
        return found

    @property
    def takes_key(self) -> bool:
        """Whether the other side is given an idempotency key."""
        return "key" in inspect.signature(self.send).parameters

    @property
    def takes_send(self) -> bool:
        """Whether its function wants the `Send`; that alone does not say that a key is honoured."""
        return leads_with(self.send, Send)

    @property
    def resends(self) -> bool:
        """Whether a send of which nobody knows the outcome is sent again."""
        return self.unsure == "resend" or (self.unsure is None and self.takes_key)


def _bound(function: Any) -> Any:
    """What the name of a function stands for in its module, or of a method in its object."""
    if inspect.ismethod(function):
        return getattr(function.__self__, function.__name__, None)
    if not inspect.isfunction(function):
        return None
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


@dataclass(frozen=True, slots=True)
class Sending:
    """One channel of one delivery, as it was when it was looked at."""

    channel: str
    key: str
    payload: str
    state: ChannelState
    child: int
    sends: int
    send_started: int | None
    given_up: bool
    concluded: bool
    error: str | None
    expires: int | None
    settled: int | None
    child_state: str | None


def sending(row: Sequence[Any]) -> Sending:
    """A row of the database, which has no booleans."""
    found = Sending(*row)
    return replace(found, given_up=bool(found.given_up), concluded=bool(found.concluded))


def classify(states: Iterable[str]) -> Verdict:
    """All sent, all failed, or anything in between; what is unsure is neither."""
    kinds = set(states)
    if not kinds or not kinds <= {"sent", "failed", "unsure"}:
        raise UsageError(f"a delivery is judged by its settled channels, not by {sorted(kinds)}")
    if kinds == {"sent"}:
        return "success"
    return "failure" if kinds == {"failed"} else "partial"


def advances(states: Sequence[str], partial: Partial) -> bool:
    """Whether the delivery is done; if not, it has failed, and is retried or given up."""
    verdict = classify(states)
    if verdict == "partial":
        return partial == "advance" or "failed" not in states
    return verdict == "success"


def to_resend(channels: Sequence[Sending], *, by_hand: bool) -> list[Sending]:
    """What another round sends: failures, and those given up only if an operator asks for it."""
    return [each for each in channels if each.state == "failed" and (by_hand or not each.given_up)]


@dataclass(frozen=True, slots=True)
class Place:
    """A channel of a delivery, and the job that sends it."""

    job: int
    channel: str
    child: int

    def note(
        self, tx: Tx, state: str, error: str | None, now: int, *, given_up: bool = False
    ) -> None:
        """Write the outcome, unless there is one already."""
        row = {"job": self.job, "channel": self.channel, "child": self.child, "state": state}
        row |= {"error": error and storable(error), "given_up": int(given_up)}
        tx.query(DELIVERIES.outcome, {**row, "now": now})


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What a channel is to send, by the job of the channel."""

    place: Place
    args: Sequence[Any]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Started:
    """A send whose start is committed: its key, its number, and rows that its sender writes."""

    key: str
    number: int
    writes: SendWrites = field(default_factory=SendWrites)


class Senders(Sends[Outgoing, Started]):
    """The sending side of one declared delivery."""

    def __init__(self, channels: Mapping[str, Channel], engine: Callable[[], Engine]) -> None:
        super().__init__(engine)
        self.channels = dict(channels)
        # What a test has put in the place of a channel's function.
        self.stand_ins: dict[str, Callable[..., Any]] = {}
        # How the arguments of the delivery are stored.
        self.codec: ArgumentCodec | None = None

    async def asend(self, run: Run, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Send by an `async def`; the timeout cancels it."""
        return await self.asend_now(run, self._outgoing(run, name, args, kwargs))

    def send(self, run: Run, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The same by a `def`, in a thread."""
        return self.send_now(run, self._outgoing(run, name, args, kwargs))

    def _outgoing(
        self, run: Run, name: str, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Outgoing:
        return Outgoing(Place(delivery_of(run.job.owner), name, run.job.id), args, kwargs)

    def mark(self, tx: Tx, wanted: Wanted[Outgoing], now: int) -> Started | Refusal:
        place = wanted.what.place
        where = {"job": place.job, "channel": place.channel}
        rows = tx.query(DELIVERIES.begun, where)
        state, child, key, send_started, sends = rows[0] if rows else (None, None, "", None, 0)
        if child != wanted.job or state not in {"sending", "failed"}:
            return "settled"
        repeated = state == "sending" and send_started is not None
        if repeated and not self.channels[place.channel].resends:
            return "unsure"
        tx.query(DELIVERIES.start_send, {**where, "now": now})
        if not repeated:
            wanted.leaving.stays()
        return Started(key, sends + 1)

    def prepare(self, run: Run, what: Outgoing, go: Started) -> Callable[[], Any]:
        """The channel's function, or what a test has put in its place: both are called alike."""
        name = what.place.channel
        channel = self.channels[name]
        function = self.stand_ins.get(name) or channel.current()
        arguments = partial(self._arguments, what.place.job)
        to = Send(run, go.key, go.number, arguments, go.writes)
        first = (to,) if channel.takes_send else ()
        more = {"key": to.key} if channel.takes_key else {}
        return lambda: function(*first, *what.args, **what.kwargs, **more)

    def answered(self, run: Run, what: Outgoing, go: Started, answer: Any) -> Any:
        """It was sent, whatever it returned; unless that is an outcome, which may as well be raised."""
        if isinstance(answer, Outcome):
            return self.raised(run, what, go, answer, harmless=False)
        return _noted(run, what.place, go, "sent", None)

    def raised(
        self, run: Run, what: Outgoing, go: Started, error: Exception, *, harmless: bool
    ) -> Outcome:
        """A failure that is known to be one is recorded; a lost reply leaves the start as it is."""
        place = what.place
        if isinstance(error, self.channels[place.channel].lost) and not harmless:
            raise error
        if isinstance(error, (Snooze, Throttled)):
            row = {"job": place.job, "channel": place.channel, "child": place.child}
            buffer_of(run).add(doing(DELIVERIES.forget_start, row))
            return error
        said_so = isinstance(error, Outcome)
        text = said(error) if said_so else describe(error)
        if said_so and not isinstance(error, Retry):
            _noted(run, place, go, "failed", text, given_up=True)
        else:
            now = run.now
            buffer_of(run).add(lambda tx: place.note(tx, "failed", text, now))
        failed = FailedPart(text.partition("\n")[0])
        # For the log and for hooks, which show where it was raised.
        failed.__cause__ = error.__cause__ if said_so else error
        return failed

    def unsure(self, run: Run, what: Outgoing) -> None:
        text, now = "nobody can tell whether it was sent: its worker was lost", run.now
        buffer_of(run).add(lambda tx: what.place.note(tx, "unsure", text, now))

    def _arguments(self, delivery: int) -> dict[str, Any]:
        assert self.codec is not None, "declared"
        with self._engine().database.reading() as tx:
            for (payload,) in tx.query(DELIVERIES.payload_of, {"job": delivery}):
                return self.codec.named(payload)
        raise NotFound(f"delivery {delivery} is gone: purged while its channels were sent")

    def settled(self, tx: Tx, name: str, job: LockedJob, ending: Ending) -> None:
        """A job that sends has ended: if it left no outcome, judge by its start; wake the delivery."""
        delivery = delivery_of(job.owner)
        parent = tx.query(DELIVERIES.lock_delivery, {"job": delivery})
        left = tx.query(DELIVERIES.under_way, {"job": delivery})
        for channel, child, send_started in left:
            if channel == name and child == job.id:
                cancelled = ending.kind == "cancelled"
                why = ending.error or ending.kind
                self.finish(tx, Place(delivery, name, child), send_started, why, given_up=cancelled)
        if all(channel == name for channel, _, _ in left):
            held = bool(parent) and parent[0][1] is not None
            self._wake(tx, job, delivery, held=held)

    def _wake(self, tx: Tx, job: LockedJob, delivery: int, *, held: bool) -> None:
        """Let the delivery judge. One that is being looked at just now would go to sleep again."""
        engine = self._engine()
        now = engine.clock.now()
        wake(tx, delivery, now=now)
        engine.ring_after(tx)
        if held:
            # A job that finds nothing to send, and so comes back here.
            lane = msgspec.structs.replace(engine.lanes.name(tx, job.lane), alone=0)
            engine.enqueue(tx, [NewJob(lane, job.payload, now + NUDGE_MS, owner=job.owner)])

    def finish(
        self, tx: Tx, place: Place, send_started: int | None, why: str, *, given_up: bool = False
    ) -> None:
        """End a channel whose sender left no outcome: without a start nothing was sent."""
        now = self._engine().clock.now()
        if send_started is None:
            place.note(tx, "failed", why, now, given_up=given_up)
            return
        text = f"nobody can tell whether it was sent: {why}"
        # A version that has the channel no more sends nothing again.
        known = self.channels.get(place.channel)
        resends = known is not None and known.resends
        # It was sent again with its key as often as it may be: another round would change nothing.
        place.note(tx, "failed" if resends else "unsure", text, now, given_up=resends)


def forget_starts(tx: Tx, jobs: list[int]) -> None:
    """Their workers died before anything had left: what they began was not sent."""
    tx.query(DELIVERIES.forget_starts, {"ids": jobs})


def delivery_of(owner: str | None) -> int:
    return int((owner or "").partition(":")[2])


def _noted(
    run: Run, place: Place, go: Started, state: str, error: str | None, *, given_up: bool = False
) -> None:
    """Let the outcome and the sender's own writes be written with the settle of the job that sends."""
    now, writes = run.now, go.writes.close()

    def note(tx: Tx) -> None:
        text = written(tx, writes, error) if writes else error
        place.note(tx, state, text, now, given_up=given_up)

    buffer_of(run).add(note)
