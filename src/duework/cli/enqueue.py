"""`duework enqueue`: a job by the name of its task, from a shell."""

from __future__ import annotations

import json
from typing import Any

import click

from duework import App, InvalidArguments, TaskNotFound
from duework.byname import call_of, task_by_name, task_names
from duework.cli.base import examples, on_database
from duework.cli.out import Out


@click.command(
    epilog=examples(
        "duework enqueue greet --app shop.work:app --args '[\"ada\"]'",
        'duework enqueue send --args \'{"to": "ada"}\' --key mail:7 --once forever',
        "duework enqueue nightly --delay 10m --json",
    )
)
@click.argument("task", metavar="NAME")
@click.option("--args", "given", metavar="JSON", default="[]", help="A list, or an object by name.")
@click.option("--key", help="At most one open job of the task has it.")
@click.option("--once", metavar="TIME", help="The key stays taken for so long: 24h, forever.")
@click.option("--delay", metavar="TIME", help="Due after so long: 10m.")
@click.option("--at", metavar="TIME", help="Due then: 2026-12-24T18:00:00+01:00.")
@click.option("--expires", metavar="TIME", help="Not started later than this after it was due.")
@click.option("--queue", help="Another queue than the task's own.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 goes first.")
@on_database()
def enqueue(app: App, out: Out, *, task: str, given: str, **options: Any) -> None:
    """Make one job of a task that the App knows, and print its id.

    It needs --app or $DUEWORK_APP: the arguments are checked as the task takes them.
    """
    try:
        found = task_by_name(app, task)
    except TaskNotFound as error:
        known = ", ".join(task_names(app)[:20])
        hint = f"it knows {known}" if known else "name an App that does, with --app"
        raise TaskNotFound(f"{error}; {hint}") from None
    args, kwargs = call_of(found.definition.arguments, _read(given))
    job = found.using(**options).enqueue(*args, **kwargs)
    if out.as_json:
        out.json({"id": str(job.id), "existed": job.existed})
    else:
        out.say(f"{job.id} {'known already' if job.existed else 'enqueued'}")


def _read(text: str) -> Any:
    """Arguments as JSON; a task of one argument takes it inside of a list."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f'--args is JSON, such as \'["ada"]\' or \'{{"name": "ada"}}\': {error}'
        raise InvalidArguments(message) from None
    if not isinstance(value, (list, dict)):
        raise InvalidArguments(f"--args is a list or an object, such as [{text}]")
    return value
