"""What is declared on an App, and what leads to what: for people, before anything has run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duework.kernel.job import OWN_QUEUE

if TYPE_CHECKING:
    from duework.kernel.tasks import Registry
    from duework.shapes.shape import Hooks


@dataclass(frozen=True, slots=True)
class Node:
    """One thing that is declared: its kind, its name, what it says, and what it leads to."""

    kind: str
    name: str
    says: str = ""
    # `kind:name` of others.
    to: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"


def graph(registry: Registry, hooks: Sequence[Hooks], more: Iterable[Node]) -> list[Node]:
    """All that is declared: schedules and other shapes, tasks, queues, paces, by kind and name."""
    nodes = [*_tasks(registry), *_queues(registry), *more]
    nodes += [Node("pace", name, repr(pace)) for name, pace in registry.paces.items()]
    for each in hooks:
        nodes += each.declared()
    found = {node.id: node for node in nodes}
    return sorted(found.values(), key=lambda node: (node.kind, node.name))


def _tasks(registry: Registry) -> Iterator[Node]:
    for name in registry.names():
        task = registry.find(name)
        if name == task.name and task.policy.queue != OWN_QUEUE:
            paces = [f"pace:{gate.name}" for gate in task.gates]
            says = [f"retries {task.policy.retries}"] if task.policy.retries else []
            says += [f"was {alias}" for alias in task.aliases]
            to = (f"queue:{task.policy.queue}", *paces)
            yield Node("task", name, ", ".join(says), to)


def _queues(registry: Registry) -> Iterator[Node]:
    tasks = [registry.find(name) for name in registry.names()]
    named = {task.policy.queue for task in tasks} | set(registry.queue_limits)
    for name in sorted((named | set(registry.queue_paces)) - {OWN_QUEUE}):
        most = registry.queue_limits.get(name)
        says = "" if most is None else f"concurrency {most}"
        paces = tuple(f"pace:{gate.name}" for gate in registry.queue_paces.get(name, ()))
        yield Node("queue", name, says, paces)
