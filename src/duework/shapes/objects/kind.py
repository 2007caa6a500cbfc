"""A class of durable objects as this process knows it: its name, its methods, its alarm."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from duework.errors import UsageError
from duework.kernel.tasks import Definition, check_name
from duework.shapes.objects.arguments import MethodArguments

# What a class may define anew of what every object has.
_THEIRS = frozenset({"open", "alarm"})


@dataclass(eq=False, slots=True)
class Kind:
    """One class, registered with one App under one name."""

    name: str
    of: type
    # By name; async ones run under a lease.
    methods: dict[str, Callable[..., Any]] = field(default_factory=dict)
    asynchronous: frozenset[str] = frozenset()
    alarm: Definition | None = None
    arguments: dict[str, MethodArguments] = field(default_factory=dict)

    def make(self, key: str, side: Any) -> Any:
        """An instance whose verbs go to `side`."""
        made = self.of()
        made.key = key
        made._side = side  # noqa: SLF001 - ours
        return made

    def method(self, name: str) -> Callable[..., Any]:
        try:
            return self.methods[name]
        except KeyError:
            known = ", ".join(sorted(self.methods)) or "none"
            raise AttributeError(
                f"{self.name} has no method {name!r} to call; it has: {known}"
            ) from None


def kind_of(base: type, of: type, name: str, reserved: frozenset[str]) -> Kind:
    """Look at a class; a clear error for one that cannot be a durable object."""
    if not (isinstance(of, type) and issubclass(of, base) and of is not base):
        raise UsageError(f"an object's class is made from DurableObject: not {of!r:.100}")
    check_name("kind of object", name)
    methods: dict[str, Callable[..., Any]] = {}
    for each in dir(of):
        value = inspect.getattr_static(of, each)
        if each.startswith("_") or not inspect.isfunction(value):
            continue
        if hasattr(base, each):
            if each not in _THEIRS and value is not inspect.getattr_static(base, each):
                raise UsageError(f"{name}.{each}: that is a verb of every object; choose another")
            continue
        if each in reserved:
            raise UsageError(f"{name}.{each}: that name is the handle's own; choose another")
        if inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
            raise UsageError(f"{name}.{each} is a generator: a method returns all it has to say")
        methods[each] = value
    if inspect.iscoroutinefunction(inspect.getattr_static(of, "open")):
        raise UsageError(f"{name}.open is a plain function: it makes tables")
    if not inspect.iscoroutinefunction(inspect.getattr_static(of, "alarm")):
        raise UsageError(f"{name}.alarm is async: write `async def alarm(self)`")
    asynchronous = frozenset(n for n, f in methods.items() if inspect.iscoroutinefunction(f))
    arguments = {each: MethodArguments(f"{name}.{each}", made) for each, made in methods.items()}
    return Kind(name, of, methods, asynchronous, arguments=arguments)
