"""Commands in this process, on a database of each kind, 80 columns wide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from duework import App
from duework.cli import main

HOSTILE = "\x1b[2J[bold red]no[/] \x1b]0;owned\x07 \u202e \r over"


@dataclass(frozen=True)
class Ran:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Duework = Callable[..., Ran]


@pytest.fixture
def bare() -> Duework:
    """A command as it is given."""

    def run(*words: object, **more: Any) -> Ran:
        result = CliRunner(env={"COLUMNS": "80"}).invoke(
            main, [str(word) for word in words], **more
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def duework(bare: Duework, url: str) -> Duework:
    """A command on the test's own database."""
    return lambda *words, **more: bare(*words, "--url", url, **more)


@pytest.fixture
def shop(url: str) -> Iterator[App]:
    """An App with tasks that end in different ways."""
    app = App(url)

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task(queue="mail")
    async def fails(text: str) -> None:
        raise ValueError(text)

    @app.task(retries=1, backoff=("1h",))
    async def retries() -> None:
        raise ValueError("try again")

    app.admin.migrate(create=True)
    yield app
    app.close()


def work(app: App) -> None:
    """Run what is due."""
    asyncio.run(app.worker().run_until_idle())


def enqueue(app: App, task: str, *args: Any, **using: Any) -> int:
    from duework.task import Task

    made: Task[..., Any, Any] = Task(app.wiring.registry.find(task), app)
    return int(made.using(**using).enqueue(*args).id)
