"""`duework status`: what is going on."""

from __future__ import annotations

import click

from duework import App, Need, Status, TaskStatus
from duework.cli.base import examples, on_database
from duework.cli.out import Out, ago, at_least
from duework.cli.watch import watch
from duework.durations import human, milliseconds

# No more needs are shown to people; a script gets all of them.
SHOWN = 8
# Nobody reads faster.
SHORTEST_MS = 200


@click.command(
    epilog=examples(
        "duework status", "duework status --app shop.work:app --json", "duework status --watch"
    )
)
@click.option("--all", "everything", is_flag=True, help="Also the engine's own queue.")
@click.option("--watch", "watched", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option("--every", default="2s", show_default=True, metavar="TIME", help="How often.")
@click.option("--times", type=click.IntRange(1), help="So many looks [until Ctrl-C].")
@on_database()
def status(
    app: App, out: Out, *, everything: bool, watched: bool, every: str, times: int | None
) -> None:
    """Show what needs you, then queues, tasks, failed jobs and workers.

    LAG is how long the oldest ready job has been due. With --app, tasks that the App does not know
    are marked. A worker is listed from its start until it stops.
    """
    if watched:
        length = max(milliseconds(every), SHORTEST_MS) / 1000
        watch(out, lambda page: show(app, page, everything=everything), every=length, times=times)
    else:
        show(app, out, everything=everything)


def show(app: App, out: Out, *, everything: bool) -> None:
    """Look once, and print it."""
    seen, about, needs = app.status(own=everything), app.admin.about(), app.needs()
    if out.as_json:
        out.json({**as_dict(seen, about), "needs": [_need(each) for each in needs]})
        return
    _show_needs(out, needs)
    out.say(
        f"{about['kind']} {about['version']}, schema {about['schema']},"
        f" durability {about['durability']}"
    )
    out.say(about["url"])
    if "*" in seen.paused:
        out.say("everything is paused", "yellow")
    out.say("")
    if seen.tasks:
        rows = [_row(line) for line in seen.tasks]
        out.table(["queue", "task", ">ready", ">waiting", ">running", ">lag", "note"], rows)
    else:
        out.say("no jobs yet")
    out.say("")
    out.say(f"failed: {at_least(seen.failed)}", "red" if seen.failed else "")
    if seen.failed_messages or seen.unsure_messages:
        found = f"failed {at_least(seen.failed_messages)}, unsure {at_least(seen.unsure_messages)}"
        out.say(f"messages: {found}", "red")
    if seen.workers:
        out.say("")
        heads = ["host", ">pid", "seen", ">running", "started"]
        rows = [(w.host, w.pid, w.seen, w.running, ago(w.started, seen.now)) for w in seen.workers]
        out.table(heads, rows)
    else:
        out.say("no workers")


def _show_needs(out: Out, needs: list[Need]) -> None:
    if needs:
        lines = [((n.kind, n.sentence), ("", n.command)) for n in needs[:SHOWN]]
        out.table(
            ["!needs you", "*what, and what to type"], [row for rows in lines for row in rows]
        )
    else:
        out.say("nothing needs you", "green")
    if len(needs) > SHOWN:
        out.say(f"and {len(needs) - SHOWN} more: --json has all of them", "dim")
    out.say("")


def _need(each: Need) -> dict[str, object]:
    return {
        "kind": each.kind,
        "sentence": each.sentence,
        "count": each.count,
        "oldest": each.oldest,
        "command": each.command,
    }


def _row(line: TaskStatus) -> tuple[object, ...]:
    note = "unknown" if line.known is False else "paused" if line.paused else ""
    return (
        *(line.queue, line.task, at_least(line.ready), at_least(line.waiting), line.running),
        *(None if line.lag is None else human(line.lag), note),
    )


def as_dict(seen: Status, about: dict[str, str]) -> dict[str, object]:
    return {
        "now": seen.now,
        "database": about,
        "tasks": [
            {
                "queue": line.queue,
                "task": line.task,
                "ready": line.ready,
                "waiting": line.waiting,
                "running": line.running,
                "lag_ms": line.lag,
                "paused": line.paused,
                "known": line.known,
            }
            for line in seen.tasks
        ],
        "failed": seen.failed,
        "failed_messages": seen.failed_messages,
        "unsure_messages": seen.unsure_messages,
        "paused": list(seen.paused),
        "workers": [
            {
                "id": str(each.id),
                "host": each.host,
                "pid": each.pid,
                "started": each.started,
                "seen": each.seen,
                "running": each.running,
            }
            for each in seen.workers
        ],
    }
