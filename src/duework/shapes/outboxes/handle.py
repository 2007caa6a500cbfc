"""Outboxes: submit, remember the handle, poll until the other side knows; nobody waits in between.

A message is a row, and at any time one job moves it: the first submits, and once the other side has
accepted, the next polls and snoozes. Its start is committed before each submit, under the fence of its
job. If its outcome stays unknown, the message is submitted again with the same key as long as the
other side remembers keys, and is unsure after that, or at once where it does not.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Unpack

import msgspec

from duework.averbs import Verbs, averb
from duework.codec import ArgumentCodec
from duework.db.database import Tx
from duework.durations import Duration, Moment, planned
from duework.errors import UsageError
from duework.kernel.failures.retry import Backoff, Exponential
from duework.kernel.outcomes import LOST
from duework.kernel.tasks import Writes, check_count, check_name, check_priority
from duework.shapes.graph import Node
from duework.shapes.outboxes import SHAPE
from duework.shapes.outboxes.messages import (
    MessageState,
    NewMessage,
    OutboxMessage,
    OutboxOperator,
    forget_starts,
    poll_task,
    seen,
    submit_task,
)
from duework.shapes.outboxes.runner import OutboxRunner
from duework.shapes.shape import Hooks, Shape
from duework.task import Options

if TYPE_CHECKING:
    from duework.kernel.engine import Engine
    from duework.part import Part
    from duework.shapes.outboxes.answers import Accepted, Pending, Rejected, Sent
    from duework.typed.options import OutboxOptions
    from duework.wiring import Wiring

M = TypeVar("M")

# A poll that fails is no failure of the message: only its age ends it.
ENDLESS = 1_000_000


class Outbox(Generic[M]):
    """What the user derives from: how to submit a message, and how to ask what became of it."""

    # How fast; given to the tasks `NAME.submit` and `NAME.poll`.
    submit_pace: Any = None
    poll_pace: Any = None
    # Failed submits are repeated so often; permanent errors are not.
    retries: int = 8
    backoff: Backoff = Exponential(first="10s", cap="1h")
    give_up_on: tuple[type[BaseException], ...] = ()
    # What a client raises when it cannot know whether the other side has taken the message.
    lost: tuple[type[BaseException], ...] = LOST
    # How long the other side remembers a key; None: it does not, and a lost reply is unsure.
    remembers_keys: Duration | None = None
    timeout: Duration = "30s"
    poll_every: Duration = "10s"
    # An accepted message of which nothing is known after so long is unsure.
    running_limit: Duration = "24h"
    queue: str = "default"
    keep: Duration | None = "7d"

    async def submit(self, message: M, key: str) -> Accepted | Sent | Rejected:
        """Hand the message to the other side, with a key that stays the same over all submits."""
        raise NotImplementedError

    async def poll(self, handle: str, message: M) -> Pending | Sent | Rejected:
        """Ask what became of a message that was accepted."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What `mail.using(…)` takes."""

    key: str | None = None
    delay: Duration | None = None
    at: Moment | None = None
    lane: str = ""
    priority: int = 0
    connection: Any = None

    def __post_init__(self) -> None:
        # The same rules as of any enqueue.
        Options(delay=self.delay, at=self.at, key=self.key, serial=self.lane or None)
        check_priority(self.priority)


class OutboxEnqueue(Generic[M]):
    """An outbox with options for the next message."""

    def __init__(self, box: OutboxHandle[M], options: MessageOptions) -> None:
        self._box = box
        self._options = options

    def using(self, **options: Unpack[OutboxOptions]) -> OutboxEnqueue[M]:
        """The same with more options."""
        try:
            return OutboxEnqueue(self._box, replace(self._options, **options))
        except TypeError:
            allowed = ", ".join(MessageOptions.__slots__)
            raise UsageError(f"an outbox's using() takes: {allowed}") from None

    def enqueue(self, message: M) -> OutboxMessage:
        """Queue a message; durable when this returns."""
        return self.enqueue_many([message])[0]

    def enqueue_many(self, messages: Iterable[M]) -> list[OutboxMessage]:
        """Queue messages in one transaction."""
        engine = self._box.engine
        new = [self.as_message(each, engine.clock.now()) for each in messages]
        operator, connection = self._box.operator, self._options.connection
        if connection is not None:
            tx = engine.database.adopt(connection)
            return self._found(tx, operator.write(tx, new))
        answers = engine.writer.call(operator.write, new)
        with engine.database.reading() as tx:
            return self._found(tx, answers)

    aenqueue = averb(enqueue)
    aenqueue_many = averb(enqueue_many)

    def _found(self, tx: Tx, answers: Sequence[tuple[int, bool]]) -> list[OutboxMessage]:
        rows = {row.id: row for row in seen(tx, [each for each, _ in answers])}
        return [msgspec.structs.replace(rows[each], existed=existed) for each, existed in answers]

    def as_message(self, message: M, now: int) -> NewMessage:
        """A message with these options, to be written in a transaction."""
        options, box = self._options, self._box
        at = planned(now, options.delay, options.at)
        stored = box.codec.encode((message,), {})
        key, lane = options.key, options.lane
        return NewMessage(box.name, key, stored, at, box.queue, options.priority, lane)


class OutboxHandle(Generic[M]):
    """An outbox of an App: enqueue messages, look at them, retry and cancel them."""

    def __init__(self, shape: OutboxShape, codec: ArgumentCodec, queue: str) -> None:
        self._shape = shape
        self.codec = codec
        self.queue = queue

    @property
    def name(self) -> str:
        """Its name, after that of its Part if it has one."""
        return self._shape.name

    @property
    def operator(self) -> OutboxOperator:
        """The verbs on messages."""
        return self._shape.operator

    @property
    def engine(self) -> Engine:
        """The kernel's side of its App."""
        return self._shape.engine

    def using(self, **options: Unpack[OutboxOptions]) -> OutboxEnqueue[M]:
        """Options for the next message: key, delay, at, lane, priority, connection."""
        return OutboxEnqueue(self, MessageOptions()).using(**options)

    def as_message(self, message: M, now: int) -> NewMessage:
        """A message to be written in a transaction."""
        return self.using().as_message(message, now)

    def enqueue(self, message: M) -> OutboxMessage:
        """Queue a message; durable when this returns."""
        return self.using().enqueue(message)

    def enqueue_many(self, messages: Iterable[M]) -> list[OutboxMessage]:
        """Queue messages in one transaction."""
        return self.using().enqueue_many(messages)

    def messages(
        self,
        state: MessageState | None = None,
        *,
        lane: str | None = None,
        before: int = 2**62,
        limit: int = 50,
    ) -> list[OutboxMessage]:
        """Messages, of one state or one lane if given, newest first; go on with `before=` the last id."""
        return self.operator.messages(self.name, state=state, lane=lane, before=before, limit=limit)

    def get_message(self, identifier: int) -> OutboxMessage:
        """One message as it is now; `NotFound` if there is none."""
        return self.operator.get_message(identifier)

    def counts(self) -> dict[str, int]:
        """Messages by state; counted up to a bound."""
        return self.operator.counts(self.name)

    def retry(self, identifier: int) -> OutboxMessage:
        """Queue a message again that failed, is unsure or was cancelled."""
        return self.operator.retry(identifier)

    def retry_failed(self) -> int:
        """Queue all failed messages again; how many."""
        return sum(self.operator.retry_failed(self.name))

    def cancel(self, identifier: int, why: str = "cancelled by hand") -> str:
        """End a queued message; its state. `Conflict` if the other side has it already."""
        return self.operator.cancel(identifier, why)

    def call_sent(self, identifier: int) -> OutboxMessage:
        """Somebody has looked, and an unsure message has arrived."""
        return self.operator.call_sent(identifier)

    def give_up(self, identifier: int, why: str = "given up by hand") -> OutboxMessage:
        """An unsure message has failed."""
        return self.operator.give_up(identifier, why)

    aenqueue = averb(enqueue)
    aenqueue_many = averb(enqueue_many)
    amessages = averb(messages)
    aget_message = averb(get_message)
    acounts = averb(counts)
    aretry = averb(retry)
    aretry_failed = averb(retry_failed)
    acancel = averb(cancel)
    acall_sent = averb(call_sent)
    agive_up = averb(give_up)


_NOT_INCLUDED = "this outbox belongs to a Part that no App has included yet"


class OutboxShape(Hooks):
    """One declared outbox on its App."""

    shape: ClassVar[Shape] = SHAPE

    def __init__(self, outbox: Outbox[Any], codec: ArgumentCodec) -> None:
        self._wiring: Wiring | None = None
        # What its declaration gave to the user.
        self.handle = OutboxHandle[Any](self, codec, outbox.queue)
        self.operator = OutboxOperator(lambda: self.engine)
        self.runner = OutboxRunner(outbox, codec, lambda: self.engine)

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring
        wiring.registry.forget_starts[SHAPE.owner] = forget_starts

    def declared(self) -> list[Node]:
        """The outbox, and its queue."""
        return [Node("outbox", self.name, "", (f"queue:{self.handle.queue}",))]

    @property
    def name(self) -> str:
        return self.runner.name

    @property
    def engine(self) -> Engine:
        if self._wiring is None:
            raise UsageError(_NOT_INCLUDED)
        return self._wiring.engine

    def settled(self, tx: Any, job: Any, ending: Any) -> None:
        self.runner.settled(tx, job, ending)

    def prune(self) -> None:
        self.operator.prune()


def declare_outbox(part: Part, name: str, outbox: Outbox[M]) -> OutboxHandle[M]:
    """Declare an outbox: `mail = app.outbox("email", Email(…))`."""
    check_name("outbox", name)
    if not isinstance(outbox, Outbox):
        raise UsageError(f"outbox {name}: derive a class from Outbox, not {outbox!r:.100}")
    codec = _message_codec(outbox)
    shape = OutboxShape(outbox, codec)
    common = {"timeout": outbox.timeout, "queue": outbox.queue, "keep": 0, "keep_failed": 0}
    check_count("retries", outbox.retries, 0)
    submit: dict[str, Any] = {"retries": outbox.retries, "backoff": outbox.backoff, **common}
    poll: dict[str, Any] = {"retries": ENDLESS, "backoff": outbox.poll_every, **common}
    for options, pace in ((submit, outbox.submit_pace), (poll, outbox.poll_pace)):
        if pace is not None:
            paces = pace if isinstance(pace, list | tuple) else [pace]
            options["pace"] = [each.for_lanes() for each in paces]
    made = part.contents.register(shape.runner.submitter(), {**submit, "name": submit_task(name)})
    part.contents.register(shape.runner.poller(), {**poll, "name": poll_task(name)})
    shape.runner.name = made.name.removesuffix(submit_task(""))
    part.contents.adopt(shape)
    return shape.handle


class OutboxVerbs(Verbs):
    """What an App has of outboxes beside their declaration."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        # The messages of every outbox; needs none of their code.
        self.operator = OutboxOperator(lambda: self.engine)

    def get_message(self, identifier: int) -> OutboxMessage:
        """One message as it is now; `NotFound` if there is none."""
        return self.operator.get_message(identifier)


def message_writes(wiring: Wiring) -> Writes:
    """How messages are written in a caller's transaction: those of outboxes that the App has."""
    operator = wiring.find(OutboxVerbs).operator

    def write(tx: Tx, new: list[NewMessage]) -> Sequence[tuple[int, bool]]:
        if any(wiring.registry.get(submit_task(each.outbox)) is None for each in new):
            raise UsageError(_NOT_INCLUDED)
        return operator.write(tx, new)

    return Writes(NewMessage, write)


def _message_codec(outbox: Outbox[Any]) -> ArgumentCodec:
    """Stores messages by the annotation of what `submit` takes."""
    if type(outbox).submit is Outbox.submit:
        raise UsageError(f"{type(outbox).__qualname__} needs a method submit(message, key)")
    # Says so if the annotations cannot be read.
    ArgumentCodec(outbox.submit, 0)
    first, *_ = inspect.signature(outbox.submit).parameters
    kind = typing.get_type_hints(outbox.submit, include_extras=True).get(first, Any)

    def stored(message: Any) -> None: ...

    stored.__annotations__ = {"message": Any if isinstance(kind, TypeVar) else kind}
    stored.__qualname__ = f"{type(outbox).__qualname__}.submit"
    return ArgumentCodec(stored, 0)
