"""Tasks and outboxes by their name, and arguments as JSON: for the HTTP API and `duework enqueue`.

What the engine and the shapes run for themselves cannot be enqueued by hand: a page without its chain, or a
submit without its message, would be a job that belongs to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duework.codec import ArgumentCodec, encode
from duework.errors import InvalidArguments, TaskNotFound, UsageError
from duework.kernel.engine import OWN_TASKS
from duework.kernel.tasks import Policy, check_name
from duework.shapes.chains.tasks import ChainTask, ChainVerbs
from duework.shapes.deliveries.handle import DeliveryShape
from duework.shapes.objects.handle import Objects
from duework.shapes.objects.store import alarm_task
from duework.shapes.outboxes.handle import OutboxHandle, OutboxShape
from duework.shapes.outboxes.messages import poll_task, submit_task
from duework.task import Task, Using

if TYPE_CHECKING:
    from duework.app import App
    from duework.part import Contents

Given = Mapping[str, Any] | Sequence[Any]


def task_names(app: App) -> list[str]:
    """The tasks of this process that can be enqueued by name."""
    inner = set(_inner(app))
    return [
        name
        for name in app.wiring.registry.names()
        if not name.startswith(OWN_TASKS) and name not in inner
    ]


def task_by_name(app: App, name: str) -> Task[..., Any, Any]:
    """A task to enqueue; `TaskNotFound` if this process has none of that name."""
    definition = app.wiring.registry.get(name)
    if definition is None or name.startswith(OWN_TASKS):
        raise TaskNotFound(f"this process knows no task {name!r:.200}")
    if name in chains_of(app):
        raise UsageError(f"{name} is a chain's: start a chain instead")
    if name in set(_inner(app)):
        raise UsageError(f"{name} is run for a message, a channel or an alarm, and not by itself")
    return Task(definition, app.contents)


def chains_of(app: App) -> Mapping[str, ChainTask[...]]:
    """The chains that this process can start, by the names of their tasks."""
    return app.wiring.find(ChainVerbs).chains.tasks


def outbox_by_name(app: App, name: str) -> OutboxHandle[Any]:
    """An outbox that this process has declared; `TaskNotFound` if there is none."""
    for shape in app.wiring.shapes:
        if isinstance(shape, OutboxShape) and shape.name == name:
            return shape.handle
    raise TaskNotFound(f"this process knows no outbox {name!r:.200}")


def call_of(codec: ArgumentCodec, given: Given) -> tuple[list[Any], dict[str, Any]]:
    """Arguments from JSON, by name or by place, as the function takes them."""
    if not isinstance(given, Mapping):
        if len(given) > len(codec.names):
            raise InvalidArguments(
                f"{codec.name} takes {len(codec.names)} arguments, not {len(given)}"
            )
        given = dict(zip(codec.names, given, strict=False))
    return codec.call(given)


def args_of(codec: ArgumentCodec, given: Given) -> tuple[Any, ...]:
    """The same for what takes arguments by place alone."""
    args, kwargs = call_of(codec, given)
    if kwargs:
        args, kwargs = codec.decode(codec.encode(args, kwargs))
    if kwargs:
        raise InvalidArguments(f"{codec.name} takes arguments by name: enqueue its jobs one by one")
    return tuple(args) if isinstance(given, Mapping) else tuple(args)[: len(given)]


def _inner(app: App) -> Iterator[str]:
    """Tasks that shapes enqueue for themselves."""
    yield from chains_of(app)
    for shape in app.wiring.shapes:
        if isinstance(shape, OutboxShape):
            yield from (submit_task(shape.name), poll_task(shape.name))
        elif isinstance(shape, DeliveryShape):
            yield from shape.names
    for kind in app.wiring.find(Objects).kinds():
        yield alarm_task(kind.name)


# --- tasks that only other processes know: to enqueue them, not to run them


class ForeignArguments:
    """The arguments of a task that only another process knows: by name, and checked there."""

    names: tuple[str, ...] = ()
    first: str | None = None

    def encode(self, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        if args:
            raise InvalidArguments("a task that this process does not know takes arguments by name")
        return encode(dict(kwargs), what="payload")

    def encode_many(self, calls: Iterable[Sequence[object]]) -> Iterator[str]:
        return (self.encode(call, {}) for call in calls)


class ForeignDefinition:
    """What there is to know of such a task: its name."""

    def __init__(self, name: str) -> None:
        self.name = check_name("task", name)
        self.policy = Policy()
        self.arguments = ForeignArguments()

    def function(self, *_args: Any, **_kwargs: Any) -> Any:
        """Its code is elsewhere."""
        raise TaskNotFound(f"this process knows no task {self.name!r}")


def named(name: str, contents: Contents) -> Using[..., Any]:
    """A task by its name, to enqueue it: also one that only other processes know."""
    known: Any = contents.wiring.registry.get(name)
    if known is not None:
        return Task(known, contents)
    foreign: Any = ForeignDefinition(name)
    return Task(foreign, contents)
