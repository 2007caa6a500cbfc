"""`duework steps`: list workflows, look at one, resume it, fork it, cancel it, tell it something."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from duework import App, UsageError
from duework.cli.base import Group, examples, on_database
from duework.cli.out import Out, ago
from duework.codec import decode
from duework.durations import human

STATES = ("running", "attention", "failed", "ended", "cancelled")


@click.group(cls=Group)
def steps() -> None:
    """List workflows, look at their steps, resume, fork, cancel and signal them."""


@steps.command(
    "list", epilog=examples("duework steps list", "duework steps list --state attention")
)
@click.option("--state", default="", type=click.Choice(("", *STATES)), help="Only those.")
@click.option("--limit", default=50, show_default=True, help="At most so many.")
@on_database()
def list_(app: App, out: Out, state: str, limit: int) -> None:
    """List workflows, newest first. With --json: one object per line."""
    found, now = app.workflows(state, limit=limit), app.now()
    if out.as_json:
        for each in found:
            out.json(_plain(each))
    elif found:
        rows = [(e.job, e.task, e.state, e.done, ago(e.started, now)) for e in found]
        out.table(["!job", "*task", "state", ">steps", ">started"], rows)
    else:
        out.say("no workflows" if not state else f"no workflows: {state}")


@steps.command(epilog=examples("duework steps show 312", "duework steps show 312 --json"))
@click.argument("job", type=int)
@on_database()
def show(app: App, out: Out, job: int) -> None:
    """Show a workflow and its steps, in their order."""
    found, now = app.get_workflow(job), app.now()
    recorded = found.steps()
    if out.as_json:
        out.json({**_plain(found), "steps": [_plain(each) for each in recorded]})
        return
    out.say(f"{found.task} {found.job}: {found.reason or found.state}")
    rows = [
        (e.place, e.name, e.kind, e.state, _took(e, now), e.error or e.result or "")
        for e in recorded
    ]
    out.table([">", "!step", "kind", "state", ">took", "*result"], rows)


@steps.command(epilog=examples("duework steps resume 312"))
@click.argument("job", type=int)
@on_database()
def resume(app: App, out: Out, job: int) -> None:
    """Go on from what is recorded: the code reaches its steps again."""
    app.get_workflow(job).resume()
    out.say(f"workflow {job} goes on")


@steps.command(epilog=examples("duework steps fork 312 charge"))
@click.argument("job", type=int)
@click.argument("step")
@on_database()
def fork(app: App, out: Out, job: int, step: str) -> None:
    """Make a new job with what is recorded before a step, which it begins with."""
    new = app.get_workflow(job).fork(step)
    if out.as_json:
        out.json({"job": new})
    else:
        out.say(f"job {new} begins with step {step}")


@steps.command(epilog=examples("duework steps cancel 312"))
@click.argument("job", type=int)
@click.option("--why", default="cancelled by an operator", show_default=True)
@on_database()
def cancel(app: App, out: Out, job: int, why: str) -> None:
    """End a workflow for good, also one that needs attention."""
    app.get_workflow(job).cancel(why)
    out.say(f"workflow {job} is cancelled")


@steps.command(
    epilog=examples(
        "duework steps signal approved --key order-7", 'duework steps signal go \'{"by": "ada"}\''
    )
)
@click.argument("event")
@click.argument("payload", default="null")
@click.option("--key", default="", help="Only those that wait with this key.")
@on_database()
def signal(app: App, out: Out, event: str, payload: str, key: str) -> None:
    """Tell the workflows that wait for an event; the payload is JSON."""
    try:
        value = decode(payload)
    except ValueError as error:
        raise UsageError(f"the payload is no JSON: {error}") from None
    app.signal(event, value, key=key)
    out.say(f"told: {event}")


def _took(each: Any, now: int) -> str:
    if each.kind == "sleep" and each.due is not None:
        return human(each.due - each.started)
    return human((each.ended or now) - each.started)


def _plain(each: Any) -> dict[str, Any]:
    return {
        one.name: getattr(each, one.name) for one in fields(each) if not one.name.startswith("_")
    }
