"""Parts: tasks, tables and pages of one subject, collected without an App. An App is one with a database."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

import msgspec

from duework import config
from duework.errors import UsageError
from duework.face import (
    Face,
    declare_action,
    declare_oauth,
    declare_page,
    declare_route,
    declare_sign_in,
)
from duework.handles import Queue
from duework.kernel.paces.pace import Pace
from duework.kernel.run import Run
from duework.kernel.surroundings.arounds import AroundAttempt, around
from duework.kernel.surroundings.resources import AsyncResource, Resource, declared
from duework.kernel.tasks import Definition, check_aliases, check_count, check_name, policy
from duework.people import People
from duework.shapes.budgets.handle import declare_budget
from duework.shapes.chains.tasks import declare_chain
from duework.shapes.deliveries.declare import declare_delivery
from duework.shapes.events.handle import declare_subscriber
from duework.shapes.objects.handle import DurableObject, Objects
from duework.shapes.outboxes.handle import declare_outbox
from duework.shapes.schedules.declare import new_schedule
from duework.shapes.schedules.handle import Declared, split
from duework.shapes.shape import H, Hooks
from duework.shapes.sweeps.handle import declare_sweep
from duework.task import Task

if TYPE_CHECKING:
    from duework.app import App
    from duework.typed.options import TaskOptions
    from duework.wiring import Wiring

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
D = TypeVar("D", bound="type[DurableObject]")


class Contents:
    """What a Part has collected. Once an App has included it, what is added comes to life at once."""

    def __init__(self, name: str, settings: type[msgspec.Struct] | None = None) -> None:
        self.name = name
        self.settings = settings
        self.app: App | None = None
        # The folders of its tables and of its templates.
        self.tables: Path | None = None
        self.templates = Path()
        self.face = Face(name, settings)
        # Commands of the command line, by name: `duework NAME COMMAND`.
        self.commands: dict[str, Any] = {}
        self.arounds: list[AroundAttempt] = []
        self._tasks: list[Task[..., Any, Any]] = []
        self._shapes: list[Hooks] = []
        self._queues: list[tuple[str, int | None, Pace | Sequence[Pace]]] = []
        self._objects: list[type[DurableObject]] = []

    @property
    def wiring(self) -> Wiring:
        """What is behind its App."""
        if self.app is None:
            raise UsageError(f"part {self.name} belongs to no App yet: app.include(part)")
        return self.app.wiring

    def define(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any, Any]:
        """Register a function, and its schedule if the options have one."""
        plain, planned = split(options)
        task = self.register(function, plain)
        if planned:
            self.adopt(Declared(task, planned))
        return task

    def register(
        self, function: Callable[..., Any], options: dict[str, Any]
    ) -> Task[..., Any, Any]:
        """Take a function on as a task, under the name of this part."""
        chosen = dict(options)
        name = self._full(chosen.pop("name", None) or function.__name__)
        aliases = chosen.pop("aliases", ())
        definition = Definition(name, function, policy(chosen))
        definition.aliases = check_aliases(name, aliases)
        definition.check_arounds(self.arounds)
        definition.inner, definition.surrounded = self.arounds, True
        if self.app is not None:
            self.wiring.registry.add(definition)
        task: Task[..., Any, Any] = Task(definition, self)
        self._tasks.append(task)
        return task

    def adopt(self, hooks: H) -> H:
        """Take the hooks of a shape on."""
        self._shapes.append(hooks)
        if self.app is not None:
            self.wiring.adopt(hooks)
        return hooks

    def surround(self, made: AroundAttempt) -> None:
        """Put a context manager around its own tasks, inside those of the App."""
        for task in self._tasks:
            task.definition.check_arounds([made])
        self.arounds.append(made)
        if self.app is not None:
            self.wiring.registry.surround_again()

    def limit_queue(self, name: str, concurrency: int | None, pace: Pace | Sequence[Pace]) -> None:
        """Declare what holds for a queue's jobs over all processes."""
        if concurrency is not None:
            check_count("concurrency", concurrency, 1)
        self._queues.append((name, concurrency, pace))
        if self.app is not None:
            self.wiring.registry.limit_queue(name, concurrency, pace)

    def add_objects(self, of: type[DurableObject]) -> None:
        """Take a class of durable objects on, under the name of this part."""
        self._objects.append(of)
        if self.app is not None:
            self._know(of)

    def _know(self, of: type[DurableObject]) -> None:
        self.wiring.find(Objects).know(of, self._full(of.kind or of.__name__))

    def _full(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name

    def bind(self, app: App) -> None:
        """Come to life on an App; safe to repeat."""
        self.app = app
        wiring = app.wiring
        for name, concurrency, pace in self._queues:
            wiring.registry.limit_queue(name, concurrency, pace)
        for task in self._tasks:
            wiring.registry.add(task.definition)
        for shape in self._shapes:
            wiring.adopt(shape)
        for of in self._objects:
            self._know(of)

    # For transactions, which know no shape: `tx.schedule`, `run.schedule`.
    new_schedule = staticmethod(new_schedule)


class Part:
    """Tasks, tables, pages and routes under one name; `app.include(part)` brings them to life."""

    def __init__(
        self,
        name: str,
        tables: str | Path | None = None,
        settings: type[msgspec.Struct] | None = None,
    ) -> None:
        self.contents = Contents(check_name("part", name), settings)
        self.contents.tables = None if tables is None else _beside_caller(tables)
        self.contents.templates = _beside_caller("pages")
        self._settings: msgspec.Struct | None = None

    @property
    def name(self) -> str:
        return self.contents.name

    @property
    def app(self) -> App:
        """The App that has included it."""
        if self.contents.app is None:
            raise UsageError(f"part {self.name} belongs to no App yet: app.include(part)")
        return self.contents.app

    @property
    def settings(self) -> Any:
        """Its settings, of the type that was given: from `duework.toml` and the environment."""
        if self.contents.settings is None:
            raise UsageError(f"part {self.name} has no settings: give Part(…, settings=Settings)")
        if self._settings is None:
            self._settings = config.load(self.name, self.contents.settings)
        return self._settings

    @property
    def people(self) -> People:
        """Those whom it serves: found, made and forgotten by their address."""
        return People(self.name, lambda: self.contents.wiring.engine)

    def adopt(self, hooks: H) -> H:
        """Let a shape stand here, one of your own for example; see the guide "Write a shape"."""
        return self.contents.adopt(hooks)

    @property
    def commands(self) -> dict[str, Any]:
        """Its commands of the command line, by name."""
        return self.contents.commands

    # --- tasks

    @overload
    def task(
        self, function: Callable[Concatenate[Run, P], Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def task(self, function: Callable[Concatenate[Run, P], R], /) -> Task[P, R, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...

    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> _Decorator: ...

    def task(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a task: `@app.task` or `@app.task(retries=3, …)`."""
        if function is not None:
            return self.contents.define(function, options)
        return _Decorator(self.contents, options)

    def around(self, function: F, /) -> F:
        """A context manager function `(run)` around each attempt, where its function runs."""
        self.contents.surround(around(function))
        return function

    @overload
    def resource(self, function: Callable[[], AsyncIterator[R]], /) -> AsyncResource[R]: ...

    @overload
    def resource(self, function: Callable[[], Iterator[R]], /) -> Resource[R]: ...

    def resource(self, function: Any, /) -> Any:
        """A generator function whose value attempts share: `run.resource(pool)`."""
        return declared(function)

    def queue(
        self, name: str, *, concurrency: int | None = None, pace: Pace | Sequence[Pace] = ()
    ) -> Queue:
        """A queue by name; `concurrency` and `pace` hold for its jobs over all processes."""
        check_name("queue", name)
        if concurrency is not None or pace:
            self.contents.limit_queue(name, concurrency, pace)
        return Queue(self.contents, name)

    # --- shapes

    chain = declare_chain
    delivery = declare_delivery
    outbox = declare_outbox
    budget = declare_budget
    on = declare_subscriber
    sweep = declare_sweep

    def durable(self, of: D) -> D:
        """Register a class of durable objects, under this part's name: `@part.durable`."""
        self.contents.add_objects(of)
        return of

    # --- its web face and its commands

    route = declare_route
    page = declare_page
    action = declare_action
    sign_in = declare_sign_in
    oauth = declare_oauth

    def command(self, function: Any = None, /, *, name: str | None = None) -> Any:
        """A command of the command line, written with click: `duework streaks import users.csv`.

        Its options and arguments are click's own decorators below this one; what it does, it does
        with `part.app`.
        """
        import click

        if not self.name:
            raise UsageError("commands belong to a part with a name: Part('shop')")

        def register(given: Any) -> Any:
            made = given if isinstance(given, click.Command) else click.command(name=name)(given)
            label = name or made.name or ""
            if label in self.commands:
                raise UsageError(f"part {self.name} has a command {label!r} already")
            self.commands[label] = made
            return made

        return register if function is None else register(function)


class _Decorator:
    """`@app.task(…)` with options, waiting for its function."""

    def __init__(self, contents: Contents, options: dict[str, Any]) -> None:
        self._contents = contents
        self._options = options

    @overload
    def __call__(
        self, function: Callable[Concatenate[Run, P], Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Run, P], R], /) -> Task[P, R, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...

    def __call__(self, function: Any, /) -> Any:
        return self._contents.define(function, self._options)


def _beside_caller(wanted: str | Path) -> Path:
    """A relative folder is looked for beside the file that makes the part."""
    folder = Path(wanted)
    if folder.is_absolute():
        return folder
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame and frame.f_back else None
    here = Path(caller.f_code.co_filename).parent if caller else Path.cwd()
    return (here / folder).resolve()
