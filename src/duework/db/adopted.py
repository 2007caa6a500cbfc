"""The driver's connection inside the one a caller gave to `using(connection=…)`.

SQLAlchemy and Django wrap it; both are recognised by their attributes and never imported. What is
found belongs to the caller: it is neither committed nor closed here.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from duework.errors import UsageError

T = TypeVar("T")

# A Session holds a Connection, which holds a pool's proxy, which holds the driver's own.
DEEPEST = 4


def driver_connection(given: Any) -> Any:
    """What is given, or what is innermost in it."""
    found = given
    for _ in range(DEEPEST):
        # Django connects at first use.
        if ensure := getattr(found, "ensure_connection", None):
            ensure()
        if (inner := _inside(found)) is None:
            break
        found = inner
    return found


def unwrapped(given: Any, kind: type[T], *, wanted: str, asynchronous: tuple[type, ...] = ()) -> T:
    """The connection of this kind that is given, or that is inside what is given."""
    found = driver_connection(given)
    if isinstance(found, kind):
        return found
    if isinstance(found, asynchronous) or inspect.iscoroutine(found):
        if inspect.iscoroutine(found):
            found.close()
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise UsageError(f"this connection is asynchronous: use a synchronous {name}")
    name = f"{type(found).__module__}.{type(found).__qualname__}"
    raise UsageError(f"using(connection=…) takes {wanted}, not {name}")


def _inside(wrapper: Any) -> Any:
    for name in ("driver_connection", "dbapi_connection", "connection"):
        inner = getattr(wrapper, name, None)
        if inner is not None:
            return inner() if inspect.ismethod(inner) else inner
    return None
