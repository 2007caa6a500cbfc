"""The live view: fed by facts, without control over the terminal for anything a job says."""

from __future__ import annotations

import asyncio

from rich.console import Console

from duework import App, facts
from duework.cli.view import View


def drawn(view: View) -> str:
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(view.picture())
    return captured.get()


def test_the_view_counts_what_it_is_told() -> None:
    view = View(App("sqlite:///never-opened.db"))
    for job in (1, 2, 3):
        view.see(facts.JobStarted(job, "greet", 1))
    view.see(facts.JobSettled(1, "greet", "done", 5))
    view.see(facts.JobSettled(2, "greet", "failed", 5, "ValueError: no"))

    picture = drawn(view)

    assert "1 running" in picture
    assert "1 done" in picture
    assert "greet 2: ValueError: no" in picture


def test_the_view_escapes_errors_and_fits_80_columns() -> None:
    view = View(App("sqlite:///never-opened.db"))
    view.see(facts.JobSettled(1, "t" * 150, "done", 5))
    view.see(facts.JobSettled(2, "greet", "failed", 5, "\x1b[2J[red]" + "long " * 50))
    view.see(facts.Parked("the disk is full"))

    picture = drawn(view)

    assert "greet 2: \\x1b[2J[red]long" in picture
    assert "the disk is full" in picture
    assert max(map(len, picture.splitlines())) <= 80


def test_an_empty_app_has_nothing_waiting_and_no_tasks(app: App) -> None:
    told: list[facts.Fact] = []
    app.on_fact(told.append)
    view = View(app)

    async def program() -> None:
        async with app.running():
            view._depth = app.status()  # noqa: SLF001 - as it is read now and then

    asyncio.run(program())

    assert app.status(own=True).tasks, "the engine's own job waits"
    assert "0 ready  0 waiting" in drawn(view)
    # Classes of objects that this process has seen are everybody's tasks.
    theirs = [name for name in app.wiring.registry.names() if not name.startswith("duework.")]
    assert [each.tasks for each in told if isinstance(each, facts.WorkerStarted)] == [len(theirs)]
