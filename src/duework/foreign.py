"""Tasks that only other processes know, by name: to enqueue them, not to run them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duework.codec import encode
from duework.errors import InvalidArguments, TaskNotFound
from duework.kernel.tasks import Policy, check_name
from duework.task import Task, Using

if TYPE_CHECKING:
    from duework.part import Contents


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
