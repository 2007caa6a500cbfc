"""The command line: `duework`, or `python -m duework`.

One file per group of commands; those of the shapes are in `shapes/`. They use the public API and nothing
below it.
"""

from __future__ import annotations

import click

from duework.cli.base import EXIT_CODES, Cli, examples
from duework.cli.completion import completion
from duework.cli.db import db
from duework.cli.doctor import doctor
from duework.cli.enqueue import enqueue
from duework.cli.failed import failed
from duework.cli.graph import graph
from duework.cli.jobs import jobs
from duework.cli.queues import queues
from duework.cli.run import run
from duework.cli.shapes import groups
from duework.cli.status import status
from duework.cli.verify import verify
from duework.cli.web import tokens, web

_CODES = "\n".join(
    ["\b", "Exit codes:", *(f"  {number:<4}{text}" for number, text in EXIT_CODES.items())]
)


@click.group(
    cls=Cli,
    commands=[
        *(run, web, status, enqueue, jobs, failed, queues),
        *groups(),
        *(tokens, doctor, verify, graph, db, completion),
    ],
    epilog=_CODES + "\n\n" + examples("duework run shop.work:app", "duework status --json"),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="duework", prog_name="duework")
def main() -> None:
    """Durable background work: run workers, look at jobs, repair what failed.

    Commands other than `run` act on the database of --app or --url, else of $DUEWORK_APP,
    $DUEWORK_URL or ./duework.db, and never create one. With --app, the reactions of its tasks
    (`@task.settled`) run when a job is cancelled; with --url there is no code to run.
    """


__all__ = ["main"]
