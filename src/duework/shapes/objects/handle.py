"""Durable objects: one instance per class and key, with a private database and one alarm.

A sync method is one transaction of the private database, committed together with the jobs and the
alarm that it asked for; see `object_host`. An async method runs one at a time per key over all
processes, by a lease, and changes state only by calling sync ones; see `object_leases`. An alarm is a
job with a due time, whose task runs the method `alarm`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

from duework.averbs import Verbs
from duework.durations import Duration, Moment
from duework.errors import UsageError
from duework.kernel.outcomes import Snooze
from duework.kernel.run import Run, buffer_of
from duework.kernel.tasks import Definition, Policy
from duework.shapes.objects import store
from duework.shapes.objects.kind import Kind, kind_of
from duework.shapes.objects.proxy import Call, ObjectHandle, ObjectInfo, info_of
from duework.task import check_text

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.kernel.engine import Engine
    from duework.shapes.objects.host import ObjectHost
    from duework.shapes.objects.leases import Leases
    from duework.typed.calls import Enqueues, MakesSchedule, Starts, Submits
    from duework.wiring import Wiring

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M")

# An alarm that finds another process inside the object looks again so often.
_LOOK_AGAIN = "250ms"
_LARGEST_PAGE = 1000
_ONLY_SYNC = (
    "an async method changes and reads state by calling sync methods:"
    " `await self.run(self.method, …)`; {} is for those"
)
# The objects whose async methods this task is inside of.
_inside: ContextVar[frozenset[tuple[str, str]]] = ContextVar("duework_objects", default=frozenset())


class DurableObject:
    """Make a class from it; `app.object(Class, key)` is one object of it.

    Define `open` to make tables, sync methods that read and write them, and async methods that talk
    to the world. `key` is the object's own.
    """

    # The name it is stored under; the class's own name if left out.
    kind: ClassVar[str] = ""
    # How often an alarm that raises is tried again, later and later.
    alarm_retries: ClassVar[int] = 10

    key: str
    _side: Any

    def open(self) -> None:
        """Make tables, if they are not there; called before the first method after each load."""

    def sql(self, text: str, /, **values: Any) -> list[Any]:
        """Run SQL on the private database; rows with attribute and index access."""
        rows: list[Any] = self._side.sql(text, values)
        return rows

    def set_alarm(self, after: Duration | None = None, *, at: Moment | None = None) -> None:
        """Call `alarm` after a while, or at a time; replaces an alarm that was set before."""
        self._side.set_alarm(after, at)

    def clear_alarm(self) -> None:
        """Take the alarm off, if there is one."""
        self._side.clear_alarm()

    def enqueue(self, task: Enqueues[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Enqueue a task, or `task.using(…)`, with this call's commit or not at all."""
        self._side.enqueue(task, args, kwargs)

    def submit(self, outbox: Submits[M], message: M, /) -> None:
        """Queue a message of an outbox, or of `outbox.using(…)`, with this call's commit."""
        self._side.submit(outbox, message)

    def start(self, chain: Starts[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Start a chain, or `chain.using(…)`, with this call's commit or not at all."""
        self._side.start(chain, args, kwargs)

    @property
    def schedule(self) -> MakesSchedule[None]:
        """Make or change a schedule with this call's commit. Takes what `app.schedule` takes."""
        return self._schedule

    def _schedule(self, task: Any, /, **options: Any) -> None:
        self._side.schedule(task, options)

    def publish(self, event: str, payload: Any = None, /) -> None:
        """Publish an event, of which every subscriber gets a job, with this call's commit."""
        self._side.publish(event, payload)

    def delete(self) -> None:
        """Remove the object, its database and its alarm, with this call's commit."""
        self._side.delete()

    async def run(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """In an async method: call a sync method of this object and wait for its commit."""
        value: R = await self._side.run(method, args, kwargs)
        return value

    async def alarm(self) -> None:
        """What the alarm does; define it in your class."""
        raise NotImplementedError


class _Outside:
    """What the instance of an async method can do: call sync methods."""

    def __init__(self, objects: Objects, kind: Kind, key: str, holder: int) -> None:
        self._objects = objects
        self._kind = kind
        self._key = key
        self._holder = holder

    def run(
        self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Awaitable[Any]:
        name = getattr(method, "__name__", "")
        if name not in self._kind.methods or name in self._kind.asynchronous:
            raise UsageError(f"run takes a sync method of this object: not {method!r:.100}")
        return Call(self._objects, self._kind, self._key, name, args, kwargs, self._holder)

    def __getattr__(self, name: str) -> Any:
        raise UsageError(_ONLY_SYNC.format(f"self.{name}"))


_RESERVED = frozenset(name for name in vars(ObjectHandle) if not name.startswith("_"))


class Objects(Verbs):
    """What an App has to do with objects."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        self._kinds: dict[type, Kind] = {}
        self._runtime: tuple[Engine, ObjectHost, Leases] | None = None
        self._making = threading.Lock()

    def object(self, of: type[DurableObject] | str, key: str) -> ObjectHandle[Any]:
        """One object by class and key, made when it is first used; by name only to look at it."""
        check_text("key", key)
        if isinstance(of, str):
            return ObjectHandle(self, None, of, key)
        kind = self._kinds.get(of) or self.know(of)
        return ObjectHandle(self, kind, kind.name, key)

    def search(
        self, kind: str = "", *, prefix: str = "", after: str = "", limit: int = 50
    ) -> list[ObjectInfo]:
        """Objects by kind and key; of one kind, go on with `after=` the last key."""
        if not kind and (prefix or after):
            raise UsageError("prefix= and after= are keys of one kind: name it")
        found = self._listed(kind, ("", after), prefix, min(limit, _LARGEST_PAGE))
        return [info_of(row) for row in found]

    def _listed(self, kind: str, after: tuple[str, str], prefix: str, wanted: int) -> Any:
        with self.engine.database.reading() as tx:
            return store.listed(tx, kind, after=after, prefix=prefix, wanted=wanted, now=self.now())

    def search_all(self) -> Iterator[ObjectInfo]:
        """Every object, a page at a time."""
        last = ("", "")
        while rows := self._listed("", last, "", _LARGEST_PAGE):
            yield from map(info_of, rows)
            last = (rows[-1][0], rows[-1][1])

    # --- classes

    def know(self, of: type[DurableObject], name: str = "") -> Kind:
        """Register a class, if it is not yet; its alarms run in workers of processes that know it."""
        if (known := self._kinds.get(of)) is not None:
            return known
        name = name or getattr(of, "kind", "") or getattr(of, "__name__", "")
        kind = kind_of(DurableObject, of, name, _RESERVED)
        for other in self._kinds.values():
            if other.name == name:
                raise UsageError(
                    f"there are two classes of objects named {name!r}: give one of them another"
                    ' name, `kind = "…"` in its body'
                )
        if of.alarm is not DurableObject.alarm:
            kind.alarm = self._alarm_task(kind)
            self.registry.add(kind.alarm)
        self._kinds[of] = kind
        return kind

    def kinds(self) -> list[Kind]:
        """The classes of objects that this process knows."""
        return list(self._kinds.values())

    def find_classes(self) -> None:
        """Before a worker starts: know the classes that nobody has used yet, for their alarms."""
        found: dict[str, list[type[DurableObject]]] = {}
        for of in _made_from(DurableObject):
            found.setdefault(of.kind or of.__name__, []).append(of)
        taken = {kind.name for kind in self._kinds.values()}
        for name, classes in found.items():
            # Of two classes with one name, whoever uses one says which.
            if len(classes) == 1 and classes[0] not in self._kinds and name not in taken:
                self.know(classes[0])

    def _alarm_task(self, kind: Kind) -> Definition:
        async def alarm(run: Run, key: str) -> Snooze | None:
            return await self._ring(kind, run, key)

        policy = Policy(retries=kind.of.alarm_retries, immortal=True, keep=0)  # type: ignore[attr-defined]  # made from DurableObject
        return Definition(store.alarm_task(kind.name), alarm, policy)

    async def _ring(self, kind: Kind, run: Run, key: str) -> Snooze | None:
        """Run the method `alarm`, unless the alarm was taken off or replaced meanwhile."""
        job, holder = run.job.id, self.engine.ids.draw()
        # A later attempt takes over from an earlier one, which the kernel has given up: that may only stand
        # still, and must write nothing if it goes on.
        claim = store.ObjectClaim(kind.name, key, holder, job=job, fence=run.job.fence)

        def over(tx: Tx) -> None:
            store.end_alarm(tx, kind.name, key, job)

        async with self.leases.held(claim, wait=False) as ours:
            if not ours:
                return Snooze(_LOOK_AGAIN)
            if await asyncio.to_thread(self._present_alarm, kind.name, key) == job:
                await self._inside(kind, key, kind.of.alarm, (), {}, holder)  # type: ignore[attr-defined]  # made from DurableObject
                buffer_of(run).add(over)
        return None

    def _present_alarm(self, kind: str, key: str) -> int | None:
        with self.engine.database.reading() as tx:
            return store.alarm_of(tx, kind, key)

    # --- calls

    async def run_async(
        self, kind: Kind, key: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an async method, under a lease."""
        method, holder = kind.methods[name], self.engine.ids.draw()
        if (kind.name, key) in _inside.get():
            raise UsageError(
                f"an async method of {kind.name} {key} is running this: call it by self, directly"
            )
        async with self.leases.held(store.ObjectClaim(kind.name, key, holder), wait=True):
            return await self._inside(kind, key, method, args, kwargs, holder)

    async def _inside(
        self,
        kind: Kind,
        key: str,
        method: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        holder: int,
    ) -> Any:
        instance = kind.make(key, _Outside(self, kind, key, holder))
        token = _inside.set(_inside.get() | {(kind.name, key)})
        try:
            return await method(instance, *args, **kwargs)
        finally:
            _inside.reset(token)

    @property
    def host(self) -> ObjectHost:
        return self._present_runtime()[1]

    @property
    def leases(self) -> Leases:
        return self._present_runtime()[2]

    def forget(self) -> None:
        """Lose what is in memory of them, as a process does that ends."""
        self._runtime = None

    def _present_runtime(self) -> tuple[Engine, ObjectHost, Leases]:
        """What runs objects on the present engine; a new engine begins with nothing in memory."""
        engine, runtime = self.engine, self._runtime
        if runtime is None or runtime[0] is not engine:
            # Loaded when first used: it brings SQLite's library along.
            from duework.shapes.objects.host import ObjectHost
            from duework.shapes.objects.leases import Leases

            with self._making:
                runtime = self._runtime
                if runtime is None or runtime[0] is not engine:
                    host = ObjectHost(engine, self.wiring.limits.object_cache_bytes)
                    runtime = (engine, host, Leases(engine, self.wiring.limits.lease_ms))
                    self._runtime = runtime
        return runtime


def _made_from(base: type[DurableObject]) -> Iterator[type[DurableObject]]:
    for each in base.__subclasses__():
        yield each
        yield from _made_from(each)
