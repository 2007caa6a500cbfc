"""`duework batches`: list batches, look at one, cancel it, retry what failed."""

from __future__ import annotations

from typing import Any

import click

from duework import App, Batch
from duework.cli.base import Group, examples, on_database, sure
from duework.cli.out import Out, ago, first_line

MOST = 1000
# How many failed members are shown.
SHOWN = 10


@click.group(cls=Group)
def batches() -> None:
    """List batches, look at one, cancel it, retry what failed."""


@batches.command(
    "list", epilog=examples("duework batches list", "duework batches list --name nightly --json")
)
@click.option("--name", default="", help="Only batches of this name.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@click.option("--before", type=int, default=2**62, show_default="none", help="Older than this id.")
@on_database()
def list_(app: App, out: Out, *, name: str, limit: int, before: int) -> None:
    """List batches, newest first. With --json: one object per line."""
    found = app.batches(name=name, limit=limit, before=before)
    if out.as_json:
        for batch in found:
            out.json(_as_dict(batch))
        return
    if not found:
        out.say("no such batches")
        return
    now = app.now()
    out.table(
        ["!id", "name", ">total", ">done", ">failed", ">cancelled", "!made"],
        [
            (
                *(batch.id, batch.name, batch.total, batch.done, batch.failed, batch.cancelled),
                ago(batch.created, now),
            )
            for batch in found
        ],
    )
    if len(found) == limit:
        out.say(f"more: --before {found[-1].id}", "dim")


@batches.command(epilog=examples("duework batches show 251234567890123456"))
@click.argument("batch_id", metavar="ID", type=int)
@on_database()
def show(app: App, out: Out, batch_id: int) -> None:
    """Show how far a batch is, its follow-up, and some of the members that failed."""
    batch = app.get_batch(batch_id)
    progress = batch.progress()
    failed = batch.jobs(phase="failed", limit=SHOWN)
    follow = batch.then_job()
    if out.as_json:
        out.json(
            {
                **_as_dict(batch),
                "waiting": progress.waiting,
                "running": progress.running,
                "percent": progress.percent,
                "then_job": None if follow is None else str(follow.id),
                "failed_jobs": [str(job.id) for job in failed],
            }
        )
        return
    now = app.now()
    rows: list[tuple[str, object]] = [
        *(("batch", batch.id), ("name", batch.name), ("task", batch.task), ("key", batch.key)),
        *(("made", ago(batch.created, now)), ("settled", ago(batch.settled, now))),
        ("percent", progress.percent),
    ]
    names = ("waiting", "running", "done", "failed", "cancelled", "total")
    rows += [(name, getattr(progress, name)) for name in names]
    if batch.then is not None:
        rows.append(("then", f"{batch.then} {'' if follow is None else follow.id}".strip()))
    out.table(["!", "*"], rows)
    if failed:
        out.say("")
        out.table(
            ["!failed", "*error"], [(job.id, first_line(job.error)) for job in reversed(failed)]
        )


@batches.command(epilog=examples("duework batches cancel 251234567890123456 --yes"))
@click.argument("batch_id", metavar="ID", type=int)
@click.option("--why", default="its batch was cancelled", help="Kept with the jobs.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@on_database()
def cancel(app: App, out: Out, batch_id: int, *, why: str, yes: bool) -> None:
    """Cancel every member that has not ended. What runs is stopped; the follow-up comes then."""
    batch = app.get_batch(batch_id)
    progress = batch.progress()
    left = progress.waiting + progress.running
    sure(f"Cancel {left} jobs of {batch.name}?", yes=yes, as_json=out.as_json)
    count = batch.cancel(why)
    if out.as_json:
        out.json({"batch": str(batch.id), "cancelled": count})
    else:
        out.say(f"{count} cancelled")


@batches.command(
    epilog=examples(
        "duework batches retry 251234567890123456",
        "duework batches retry 251234567890123456 --then",
    )
)
@click.argument("batch_id", metavar="ID", type=int)
@click.option("--then", is_flag=True, help="Enqueue the follow-up once more when all have ended.")
@on_database()
def retry(app: App, out: Out, batch_id: int, *, then: bool) -> None:
    """Open the failed members of a batch again, all at once."""
    count = app.get_batch(batch_id).retry(then=then)
    if out.as_json:
        out.json({"batch": str(batch_id), "revived": count})
    else:
        out.say(f"{count} revived")


def _as_dict(batch: Batch) -> dict[str, Any]:
    return {
        "id": str(batch.id),
        "name": batch.name,
        "key": batch.key,
        "task": batch.task,
        "total": batch.total,
        "done": batch.done,
        "failed": batch.failed,
        "cancelled": batch.cancelled,
        "created": batch.created,
        "settled": batch.settled,
        "then": batch.then,
    }
