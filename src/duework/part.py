"""Parts: tasks and tables of one subject, collected without an App."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

import msgspec

from duework import config
from duework.errors import UsageError
from duework.face import DeclaresFace
from duework.kernel.paces.pace import Pace
from duework.kernel.run import Run
from duework.kernel.surroundings.arounds import AroundAttempt, around
from duework.kernel.surroundings.resources import AsyncResource, Resource, declared
from duework.kernel.tasks import Definition, Registry, check_name, policy
from duework.people import People
from duework.shapes.chains.tasks import ChainDecorator
from duework.shapes.deliveries.declare import Deliveries
from duework.shapes.objects.handle import PartObjects
from duework.shapes.outboxes.handle import Outboxes
from duework.shapes.schedules.declare import DeclaresSchedules
from duework.shapes.shape import H, Hooks
from duework.task import Task

if TYPE_CHECKING:
    from duework.app import App

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class Tasks(ChainDecorator, DeclaresSchedules, Deliveries, Outboxes):
    """What App and Part have in common: the decorator that registers a function."""

    if TYPE_CHECKING:
        registry: Registry

    def _register(
        self, function: Callable[..., Any], options: dict[str, Any]
    ) -> Task[..., Any, Any]:
        raise NotImplementedError

    def adopt(self, hooks: H) -> H:
        """Let a shape stand here, one of your own for example; see the guide "Write a shape"."""
        raise NotImplementedError

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
    def task(self, /, **options: Any) -> _Decorator: ...

    def task(self, function: Any = None, /, **options: Any) -> Any:
        """Register a function as a task: `@app.task` or `@app.task(retries=3, …)`."""
        if function is not None:
            return self._define(function, options)
        return _Decorator(self, options)

    def _surround(self, made: AroundAttempt) -> None:
        """Put a context manager around the attempts of all tasks."""
        self.registry.add_around(made)

    def around(self, function: F, /) -> F:
        """A context manager function `(run)` around each attempt, where its function runs."""
        self._surround(around(function))
        return function

    @overload
    def resource(self, function: Callable[[], AsyncIterator[R]], /) -> AsyncResource[R]: ...

    @overload
    def resource(self, function: Callable[[], Iterator[R]], /) -> Resource[R]: ...

    def resource(self, function: Any, /) -> Any:
        """A generator function whose value attempts share: `run.resource(pool)`."""
        return declared(function)


class _Decorator:
    """`@app.task(…)` with options, waiting for its function."""

    def __init__(self, owner: Tasks, options: dict[str, Any]) -> None:
        self._owner = owner
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
        return self._owner._define(function, self._options)  # noqa: SLF001 - one mechanism, two classes


def define(function: Callable[..., Any], options: dict[str, Any], prefix: str = "") -> Definition:
    """A definition from a function and the decorator's options."""
    chosen = dict(options)
    name = chosen.pop("name", None) or function.__name__
    made = Definition(prefix + name, function, policy(chosen))
    made.surrounded = True
    return made


class Part(Tasks, PartObjects, DeclaresFace):
    """Tasks, tables, pages and routes under one name; `app.include(part)` brings them to life."""

    def __init__(
        self,
        name: str,
        tables: str | Path | None = None,
        settings: type[msgspec.Struct] | None = None,
    ) -> None:
        self.name = check_name("part", name)
        self.tables = None if tables is None else _beside_caller(tables)
        # Where the templates of its pages are.
        self.templates = _beside_caller("pages")
        DeclaresFace.__init__(self)
        self._tasks: list[Task[..., Any, Any]] = []
        self.shapes: list[Hooks] = []
        self._arounds: list[AroundAttempt] = []
        self._queues: list[tuple[str, int | None, Pace | Sequence[Pace]]] = []
        # Commands of the command line, by name: `duework NAME COMMAND`.
        self.commands: dict[str, Any] = {}
        self._kind = settings
        self._settings: msgspec.Struct | None = None
        self._app: App | None = None

    @property
    def settings(self) -> Any:
        """Its settings, of the type that was given: from `duework.toml` and the environment."""
        if self._kind is None:
            raise UsageError(f"part {self.name} has no settings: give Part(…, settings=Settings)")
        if self._settings is None:
            self._settings = config.load(self.name, self._kind)
        return self._settings

    @property
    def app(self) -> App:
        """The App that has included it."""
        if self._app is None:
            raise UsageError(f"part {self.name} belongs to no App yet: app.include(part)")
        return self._app

    @property
    def people(self) -> People:
        """Those whom it serves: found, made and forgotten by their address."""
        return People(self.name, lambda: self.app.engine)

    def queue(
        self, name: str, *, concurrency: int | None = None, pace: Pace | Sequence[Pace] = ()
    ) -> None:
        """Declare a queue: `concurrency` and `pace` hold for its jobs over all processes."""
        self._queues.append((check_name("queue", name), concurrency, pace))

    def command(self, function: Any = None, /, *, name: str | None = None) -> Any:
        """A command of the command line, written with click: `duework streaks import users.csv`.

        Its options and arguments are click's own decorators below this one; what it does, it does
        with `part.app`.
        """
        import click

        def register(given: Any) -> Any:
            made = given if isinstance(given, click.Command) else click.command(name=name)(given)
            label = name or made.name or ""
            if label in self.commands:
                raise UsageError(f"part {self.name} has a command {label!r} already")
            self.commands[label] = made
            return made

        return register if function is None else register(function)

    def _register(
        self, function: Callable[..., Any], options: dict[str, Any]
    ) -> Task[..., Any, Any]:
        definition = define(function, options, f"{self.name}.")
        definition.check_arounds(self._arounds)
        definition.inner = self._arounds
        task: Task[..., Any, Any] = Task(definition, None, self)
        self._tasks.append(task)
        return task

    def _surround(self, made: AroundAttempt) -> None:
        """AroundAttempt its own tasks, inside the App's."""
        for task in self._tasks:
            task.definition.check_arounds([made])
        self._arounds.append(made)
        if self._app is not None:
            self._app.registry.surround_again()

    def adopt(self, hooks: H) -> H:
        """Keep the hooks of a shape for the App that includes this part."""
        self.shapes.append(hooks)
        return hooks

    def bind(self, app: App) -> list[Definition]:
        """Called by `app.include`: the tasks enqueue to this app from now on."""
        if self._kind is not None:
            # A mistake in the settings is one at the start, not in the first job that looks.
            _ = self.settings
        self._app = app
        for name, concurrency, pace in self._queues:
            app.queue(name, concurrency=concurrency, pace=pace)
        for task in self._tasks:
            task._app = app  # noqa: SLF001 - ours
        return [task.definition for task in self._tasks]


def _beside_caller(wanted: str | Path) -> Path:
    """A relative folder is looked for beside the file that makes the part."""
    folder = Path(wanted)
    if folder.is_absolute():
        return folder
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame and frame.f_back else None
    here = Path(caller.f_code.co_filename).parent if caller else Path.cwd()
    return (here / folder).resolve()
