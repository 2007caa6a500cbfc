"""The driver's connection inside the one a caller gave to `using(connection=…)`.

SQLAlchemy and Django wrap it; both are recognised by their attributes and never imported. What is
found belongs to the caller: it is neither committed nor closed here.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from duework.errors import UsageError

T = TypeVar("T")

# An AsyncSession holds a Session, which holds a Connection, which holds a pool's proxy, which holds
# the driver's own.
DEEPEST = 5
_WITHIN = ("sync_session", "sync_connection", "driver_connection", "dbapi_connection", "connection")
# Drivers that cannot be lent, and what to do about it.
_LIKENED = {
    "asyncpg": "write postgresql+psycopg:// in the engine's URL, for create_async_engine too",
    "psycopg2": "write postgresql+psycopg:// in the engine's URL, which is psycopg 3",
    "aiosqlite": "on SQLite it has to be a synchronous engine: create_engine and a Session",
}

BY_ITSELF = (
    "this connection commits every statement by itself: open a transaction first, by"
    " `with transaction.atomic():` in Django, `with connection.transaction():` in psycopg,"
    " `begin` in SQLite, and in SQLAlchemy without AUTOCOMMIT"
)


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


def unwrapped(given: Any, kind: type[T], *, wanted: str) -> T:
    """The connection of this kind that is given, or that is inside what is given."""
    found = driver_connection(given)
    if isinstance(found, kind):
        return found
    if inspect.iscoroutine(found):
        # Python warns of one that is never awaited.
        found.close()
    module = type(found).__module__
    hint = _LIKENED.get(module.partition(".")[0])
    message = f"using(connection=…) takes {wanted}, not {module}.{type(found).__qualname__}"
    raise UsageError(f"{message}: {hint}" if hint else message)


def _inside(wrapper: Any) -> Any:
    if getattr(wrapper, "sync_connection", wrapper) is None:
        raise UsageError("this AsyncConnection is not started: `async with engine.begin() as …`")
    for name in _WITHIN:
        inner = getattr(wrapper, name, None)
        if inner is not None:
            return _connected(inner) if inspect.ismethod(inner) else inner
    return None


def _connected(connect: Callable[[], Any]) -> Any:
    """A Session connects at first use; one that is inside an AsyncSession has to be awaited then."""
    try:
        return connect()
    except _must_be_awaited() as error:
        message = "this AsyncSession has no connection yet: `await session.connection()` before"
        raise UsageError(message) from error


def _must_be_awaited() -> tuple[type[Exception], ...]:
    """SQLAlchemy's error, of one that the program has imported."""
    module = sys.modules.get("sqlalchemy.exc")
    return () if module is None else (module.MissingGreenlet,)
