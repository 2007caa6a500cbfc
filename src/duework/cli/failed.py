"""`duework failed`: the jobs that were given up."""

from __future__ import annotations

from typing import Any

import click

from duework import App, UsageError
from duework.cli.base import FAILED, OK, Group, examples, on_database, sure
from duework.cli.jobs import MOST, each_of, show_list
from duework.cli.out import Out

_BOUND = 100_000


@click.group(cls=Group)
def failed() -> None:
    """The jobs that were given up: list, redrive, purge."""


@failed.command(
    "list", epilog=examples("duework failed list --task greet", "duework failed list --json")
)
@click.option("--task", default="", help="Only jobs of this task.")
@click.option("--queue", default="", help="Only jobs of this queue.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@click.option("--before", type=int, default=2**62, show_default="none", help="Older than this id.")
@on_database()
def list_(app: App, out: Out, **wanted: Any) -> None:
    """List failed jobs, newest first. With --json: one object per line."""
    found = app.jobs(phase="failed", **wanted)
    show_list(out, found, app.now(), wanted["limit"], phase=False)


@failed.command(
    epilog=examples(
        "duework failed redrive 251234567890123456", "duework failed redrive --task greet"
    )
)
@click.argument("ids", metavar="[ID...]", type=int, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every failed job.")
@click.option("--task", default="", help="Every failed job of this task.")
@click.option("--queue", default="", help="Every failed job of this queue.")
@on_database()
def redrive(
    app: App, out: Out, *, ids: tuple[int, ...], everything: bool, task: str, queue: str
) -> int:
    """Open failed jobs again, due at once, with their retries restored."""
    _one_way(ids, everything=everything, filtered=bool(task or queue))
    if ids:
        return each_of(out, ids, app.revive)
    revived, refused = 0, []
    with out.progress("redriving", _total(app, task or queue)) as move:
        for chunk in app.admin.redrive(task=task, queue=queue):
            move(len(chunk))
            revived += sum(outcome == "revived" for _, outcome in chunk)
            refused += [(job, outcome) for job, outcome in chunk if outcome != "revived"]
    if out.as_json:
        left = [{"id": str(job), "outcome": outcome} for job, outcome in refused]
        out.json({"revived": revived, "refused": left})
    else:
        out.say(f"{revived} revived")
        for job, outcome in refused:
            out.say(f"{job} {outcome}: left as it is", "yellow")
    return FAILED if refused else OK


@failed.command(
    epilog=examples(
        "duework failed purge 251234567890123456", "duework failed purge --task greet --yes"
    )
)
@click.argument("ids", metavar="[ID...]", type=int, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every failed job.")
@click.option("--task", default="", help="Every failed job of this task.")
@click.option("--queue", default="", help="Every failed job of this queue.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_database()
def purge(
    app: App,
    out: Out,
    *,
    ids: tuple[int, ...],
    everything: bool,
    task: str,
    queue: str,
    yes: bool,
) -> int:
    """Delete failed jobs for good, with their history. What waits for one of them is cancelled."""
    _one_way(ids, everything=everything, filtered=bool(task or queue))
    if not ids:
        of, among = f" of {task}" if task else "", f" in queue {queue}" if queue else ""
        sure(f"Delete every failed job{of}{among}?", yes=yes, as_json=out.as_json)
        count = 0
        with out.progress("purging", _total(app, task or queue)) as move:
            for some in app.admin.purge_failed(task=task, queue=queue):
                count += some
                move(some)
        return _purged(out, count)
    for job in ids:
        if (found := app.job(job)).state != "failed":
            raise UsageError(f"job {job} is {found.state}, not failed: nothing was purged")
    jobs = "1 failed job" if len(ids) == 1 else f"{len(ids)} failed jobs"
    sure(f"Delete {jobs}?", yes=yes, as_json=out.as_json)
    return _purged(out, app.purge(ids))


def _one_way(ids: tuple[int, ...], *, everything: bool, filtered: bool) -> None:
    if bool(ids) == (everything or filtered):
        raise UsageError("say which: the ids of jobs, or --task NAME, --queue NAME or --all")


def _total(app: App, filtered: str) -> int | None:
    """How long the bar is, where that is known without counting everything."""
    count = app.status().failed
    return None if filtered or count >= _BOUND else count


def _purged(out: Out, count: int) -> int:
    if out.as_json:
        out.json({"purged": count})
    else:
        out.say(f"{count} purged")
    return OK
