"""Parts: tasks and tables of one subject, collected without an App."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from duework.kernel.run import Run
from duework.kernel.tasks import Definition, check_name, policy
from duework.shapes.chain_tasks import ChainDecorator
from duework.shapes.deliveries import Deliveries
from duework.shapes.objects import PartObjects
from duework.shapes.outboxes import Outboxes
from duework.shapes.scheduling import Declares
from duework.shapes.shape import Shape
from duework.task import Task

if TYPE_CHECKING:
    from duework.app import App

P = ParamSpec("P")
R = TypeVar("R")


class Tasks(ChainDecorator, Declares, Deliveries, Outboxes):
    """What App and Part have in common: the decorator that registers a function."""

    def _register(
        self, function: Callable[..., Any], options: dict[str, Any]
    ) -> Task[..., Any, Any]:
        raise NotImplementedError

    def _adopt(self, shape: Shape) -> None:
        """Take a shape on."""
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
    return Definition(prefix + name, function, policy(chosen))


class Part(Tasks, PartObjects):
    """Tasks and tables under one name; `app.include(part)` brings them to life."""

    def __init__(self, name: str, tables: str | Path | None = None) -> None:
        self.name = check_name("part", name)
        self.tables = None if tables is None else _beside_caller(tables)
        self._tasks: list[Task[..., Any, Any]] = []
        self.shapes: list[Shape] = []

    def _register(
        self, function: Callable[..., Any], options: dict[str, Any]
    ) -> Task[..., Any, Any]:
        task: Task[..., Any, Any] = Task(define(function, options, f"{self.name}."), None, self)
        self._tasks.append(task)
        return task

    def _adopt(self, shape: Shape) -> None:
        """Keep a shape for the App that includes this part."""
        self.shapes.append(shape)

    def bind(self, app: App) -> list[Definition]:
        """Called by `app.include`: the tasks enqueue to this app from now on."""
        for task in self._tasks:
            task._app = app  # noqa: SLF001 - ours
        return [task.definition for task in self._tasks]


def _beside_caller(tables: str | Path) -> Path:
    """A relative folder is looked for beside the file that names it."""
    folder = Path(tables)
    if folder.is_absolute():
        return folder
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame and frame.f_back else None
    here = Path(caller.f_code.co_filename).parent if caller else Path.cwd()
    return (here / folder).resolve()
