"""`duework deliveries`: channels of which nobody can tell whether they were sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import click

from duework import App, Sending
from duework.cli.base import OK, Group, examples, on_database
from duework.cli.jobs import MOST
from duework.cli.out import Out, ago, first_line


@click.group(cls=Group)
def deliveries() -> None:
    """Channels of deliveries: list, show, and decide on what is unsure."""


@deliveries.command("list", epilog=examples("duework deliveries list --json"))
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@click.option("--before", type=int, default=2**62, show_default="none", help="Older than this job.")
@on_database()
def list_(app: App, out: Out, limit: int, before: int) -> None:
    """List deliveries with unsure channels. With --json: one object per channel and line."""
    found = app.deliveries.unsure(before=before, limit=limit)
    if not found and not out.as_json:
        out.say("no channel is unsure")
    elif found:
        _show(app, out, found)
        if not out.as_json and len({job for job, _ in found}) == limit:
            out.say(f"more: --before {found[-1][0]}", "dim")


@deliveries.command(epilog=examples("duework deliveries show 251234567890123456"))
@click.argument("job", metavar="JOB", type=int)
@on_database()
def show(app: App, out: Out, job: int) -> None:
    """Show every channel of one delivery."""
    app.job(job)
    _show(app, out, [(job, each) for each in app.deliveries.channels(job)])


def _decision(name: str) -> Callable[[Callable[..., int]], click.Command]:
    """A command that decides on one channel of one delivery."""

    def made(function: Callable[..., int]) -> click.Command:
        command = click.argument("channel", metavar="CHANNEL")(on_database()(function))
        command = click.argument("job", metavar="JOB", type=int)(command)
        example = examples(f"duework deliveries {name} 251234567890123456 email")
        return deliveries.command(name, epilog=example)(command)

    return made


@_decision("resend")
def resend(app: App, out: Out, job: int, channel: str) -> int:
    """Send an unsure channel once more, with the same key. It may arrive twice."""
    return _decided(out, job, channel, app.deliveries.resend)


@_decision("sent")
def sent(app: App, out: Out, job: int, channel: str) -> int:
    """Call an unsure channel sent: somebody has looked, and it has arrived."""
    return _decided(out, job, channel, app.deliveries.call_sent)


@_decision("give-up")
def give_up(app: App, out: Out, job: int, channel: str) -> int:
    """Call an unsure channel failed, and leave it alone."""
    return _decided(out, job, channel, app.deliveries.give_up)


def _decided(out: Out, job: int, channel: str, verb: Callable[[int, str], list[Sending]]) -> int:
    states = {each.channel: each.state for each in verb(job, channel)}
    if out.as_json:
        out.json({"job": str(job), "channel": channel, "state": states[channel]})
    else:
        out.say(f"{job} {channel} {states[channel]}")
    return OK


def _show(app: App, out: Out, found: list[tuple[int, Sending]]) -> None:
    if out.as_json:
        for job, each in found:
            out.json({**asdict(each), "job": str(job), "child": str(each.child)})
        return
    now = app.now()
    out.table(
        ["!job", "channel", "state", ">sends", "!when", "error"],
        [
            (
                *(job, each.channel, each.state, each.sends),
                ago(each.settled or each.send_started, now)
                if each.settled or each.send_started
                else "",
                first_line(each.error),
            )
            for job, each in found
        ],
    )
