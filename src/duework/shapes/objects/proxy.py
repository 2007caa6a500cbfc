"""What users hold of an object: a handle, the calls made by it, and what a look at it shows."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from duework.averbs import averb
from duework.clock import as_datetime
from duework.db.sqlite.pages import PAGE, changed, packed
from duework.errors import Conflict, NotFound, UsageError
from duework.shapes.objects import store
from duework.shapes.objects.kind import Kind
from duework.shapes.objects.store import Loaded, ObjectChange

if TYPE_CHECKING:
    from datetime import datetime

    from duework.shapes.objects.handle import Objects

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Call(Generic[R]):
    """A call of an object's method: `await` it, or ask for its `result()` in sync code."""

    __slots__ = ("_args", "_holder", "_key", "_kind", "_kwargs", "_name", "_objects", "_started")

    def __init__(
        self,
        objects: Objects,
        kind: Kind,
        key: str,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        holder: int | None = None,
    ) -> None:
        self._objects = objects
        self._kind = kind
        self._key = key
        self._name = name
        self._args, self._kwargs = kind.arguments[name].checked(args, kwargs)
        self._holder = holder
        self._started = False

    def __await__(self) -> Generator[Any, Any, R]:
        self._start()
        if self._name in self._kind.asynchronous:
            found: R = yield from self._run_async().__await__()
            return found
        host = self._objects.host
        value: R = yield from host.start(self._kind, self._key, self._pending()).__await__()
        return value

    def result(self) -> R:
        """Run it and wait, in sync code; what it raises is raised here."""
        self._start()
        if self._name not in self._kind.asynchronous:
            host = self._objects.host
            value: R = host.run(self._kind, self._key, self._pending())
            return value
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            found: R = asyncio.run(self._run_async())
            return found
        raise UsageError(f"{self._name} is async and this is an event loop: await it")

    def _run_async(self) -> Coroutine[Any, Any, R]:
        call = (self._kind, self._key, self._name, self._args, self._kwargs)
        return self._objects.run_async(*call)

    def _start(self) -> None:
        if self._started:
            raise UsageError(f"this call of {self._name} was made already; make another")
        self._started = True

    def _pending(self) -> Any:
        from duework.shapes.objects.cell import PendingCall

        return PendingCall(self._kind.methods[self._name], self._args, self._kwargs, self._holder)

    def __del__(self) -> None:
        if not getattr(self, "_started", True):
            name = f"{self._kind.name}.{self._name}"
            warnings.warn(
                f"{name} was never called: await it, or ask for its result()",
                RuntimeWarning,
                stacklevel=2,
            )


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as it was when it was looked at."""

    kind: str
    key: str
    # Raised by every commit that changed it.
    version: int
    pages: int
    created: int
    changed: int
    # When its alarm is due, in milliseconds; how often it has failed, and why.
    alarm: int | None
    failures: int
    error: str | None
    # Whether an async method runs.
    running: bool

    @property
    def bytes(self) -> int:
        return self.pages * PAGE

    @property
    def alarm_at(self) -> datetime | None:
        return None if self.alarm is None else as_datetime(self.alarm)


def info_of(row: Any) -> ObjectInfo:
    kind, key, version, pages, created, changed, alarm, failures, error, holder = row
    running = holder is not None
    return ObjectInfo(
        kind, key, version, pages, created, changed, alarm, failures or 0, error, running
    )


class ObjectHandle(Generic[T]):
    """One object by kind and key; its methods are called here. Other verbs need no class."""

    def __init__(self, objects: Objects, kind: Kind | None, name: str, key: str) -> None:
        self._objects = objects
        self._kind = kind
        self._name = name
        self.key = key

    def __getattr__(self, name: str) -> Callable[..., Call[Any]]:
        kind = self._kind
        if name.startswith("_") or kind is None:
            raise AttributeError(f"{self._name} is known by its name only; give the class to call")
        kind.method(name)

        def call(*args: Any, **kwargs: Any) -> Call[Any]:
            return Call(self._objects, kind, self.key, name, args, kwargs)

        return call

    @overload
    def call(
        self,
        method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Call[R]: ...

    @overload
    def call(
        self, method: Callable[Concatenate[T, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Call[R]: ...

    def call(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Call[Any]:
        """Call a method of its class, with arguments that type checkers know: `seat.call(Seat.take, 7)`."""
        return self.__getattr__(method.__name__)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<object {self._name} {self.key}>"

    def info(self) -> ObjectInfo:
        """What is stored of it; `NotFound` if there is none."""
        with self._objects.engine.database.reading() as tx:
            row = store.shown(tx, self._name, self.key, self._objects.now())
        if row is None:
            raise self._missing()
        return info_of(row)

    def tables(self) -> dict[str, int]:
        """The rows of each of its tables."""
        from duework.db.sqlite.image import Image

        image = Image(self._loaded().pages)
        try:
            return image.tables()
        finally:
            image.close()

    def export(self, path: str | Path) -> int:
        """Write it as an ordinary SQLite file, which must not be there yet; its bytes."""
        pages = self._loaded().pages
        try:
            with Path(path).open("xb") as file:
                file.write(pages)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            raise UsageError(f"{path} is there already; name another file") from None
        return len(pages)

    def import_(self, path: str | Path) -> ObjectInfo:
        """Take its database from an ordinary SQLite file; what it had is replaced."""
        from duework.db.sqlite.image import from_file

        pages = from_file(Path(path))
        count = len(pages) // PAGE
        new = [(number, packed(page)) for number, page in changed(b"", pages)]

        def change(base: Loaded) -> ObjectChange:
            return ObjectChange(self._name, self.key, base, count, new)

        self._commit(change)
        return self.info()

    def delete(self) -> bool:
        """Remove it with its alarm; whether it was there."""
        was = self._commit(lambda base: ObjectChange(self._name, self.key, base, delete=True))
        return bool(was.id)

    ainfo = averb(info)
    atables = averb(tables)
    aexport = averb(export)
    aimport_ = averb(import_)
    adelete = averb(delete)

    def _commit(self, change: Callable[[Loaded], ObjectChange]) -> Loaded:
        """Write a change of whatever version there is; what it was made from."""
        host = self._objects.host
        for _ in range(100):
            with self._objects.engine.database.reading() as tx:
                base = store.load(tx, self._name, self.key)
            if self._objects.engine.writer.call(host.commit, [change(base)])[0].outcome == "stored":
                return base
        raise Conflict(f"{self!r} is changed too often by others; try again")

    def _loaded(self) -> Loaded:
        with self._objects.engine.database.reading() as tx:
            found = store.load(tx, self._name, self.key)
        if not found.id:
            raise self._missing()
        return found

    def _missing(self) -> NotFound:
        return NotFound(f"there is no object {self._name} {self.key}")
