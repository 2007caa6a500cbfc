"""`duework jobs`: find jobs, look at one, retry and cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from rich.text import Text

from duework import App, Attempt, Error, Job, UsageError, Why
from duework.cli.base import FAILED, OK, Group, check_queue, examples, exit_code, on_database
from duework.cli.out import STYLES, Out, ago, fail, first_line, plain
from duework.clock import FOREVER
from duework.durations import human
from duework.kernel.job import PHASES
from duework.observe.log import escaped
from duework.observe.words import tally

MOST = 1000
# Where the engine's own jobs are, such as the one that prunes.
OWN_QUEUE = "duework"


@click.group(cls=Group)
def jobs() -> None:
    """Find jobs, look at one, retry and cancel."""


@jobs.command(
    "list",
    epilog=examples(
        "duework jobs list --phase running",
        "duework jobs list --task greet --limit 10",
        "duework jobs list --before 251234567890123456     the next page",
        "duework jobs list --phase failed --json | jq -r .id",
    ),
)
@click.option("--phase", type=click.Choice(PHASES), help="Only jobs in this phase.")
@click.option("--task", default="", help="Only jobs of this task.")
@click.option("--queue", default="", help="Only jobs of this queue.")
@click.option("--key", default="", help="Only jobs with this key.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@click.option("--before", type=int, default=2**62, show_default="none", help="Older than this id.")
@click.option("--all", "everything", is_flag=True, help="Also jobs of the engine's own.")
@on_database()
def list_(app: App, out: Out, *, phase: str | None, everything: bool, **wanted: Any) -> None:
    """List jobs, newest first. With --json: one object per line.

    The engine's own jobs (queue `duework`) are left out, unless they failed or are asked for.
    """
    if wanted["queue"]:
        check_queue(app, wanted["queue"], must_be=True)
    if out.as_json:
        # A script cannot be told how far it got.
        found = app.jobs(phase=phase or "", own=everything, **wanted)
        show_list(out, found, app.now(), wanted["limit"])
        return
    seen = app.search_jobs(phase=phase or "", own=everything, **wanted)
    show_list(out, seen.jobs, app.now(), wanted["limit"])
    if seen.before is not None and len(seen.jobs) < wanted["limit"]:
        out.say(f"looked at the newest 10,000 rows; further: --before {seen.before}", "dim")


def show_list(out: Out, found: list[Job[Any]], now: int, limit: int, *, phase: bool = True) -> None:
    if out.as_json:
        for job in found:
            out.json(as_dict(job))
        return
    if not found:
        out.say("no such jobs")
        return
    out.table(
        ["!id", *(["!phase"] if phase else []), "task", ">failures", "!when", "key or error"],
        [
            (
                *(job.id, *([job.phase] if phase else []), job.task),
                tally(job.failures, job.crashes),
                *(ago(job.settled or job.due, now), first_line(job.error) or job.key or ""),
            )
            for job in found
        ],
    )
    if len(found) == limit:
        out.say(f"more: --before {found[-1].id}", "dim")


@jobs.command(epilog=examples("duework jobs show 251234567890123456"))
@click.argument("job_id", metavar="ID", type=int)
@on_database()
def show(app: App, out: Out, job_id: int) -> None:
    """Show one job: its arguments, its result or error, and the attempts that did not end well."""
    job = app.job(job_id)
    attempts, reason = job.attempts(), job.why()
    if out.as_json:
        more = {"why": why_as_dict(reason), "attempts": [_attempt(each) for each in attempts]}
        out.json({**as_dict(job), **more})
        return
    now = app.now()
    _fields(out, job, reason, now)
    for name, text in (("payload", job.payload), ("result", job.stored_result)):
        if text is not None:
            _block(out, name, text)
    if job.error is not None:
        _block(out, "error", job.error)
    if attempts:
        out.say("")
        rows = [
            (
                *(each.number, each.outcome, ago(each.ended, now), _took(each)),
                first_line(each.error),
            )
            for each in attempts
        ]
        out.table([">fence", "!outcome", "!ended", ">took", "*error"], rows)


@jobs.command(epilog=examples("duework jobs why 251234567890123456"))
@click.argument("job_id", metavar="ID", type=int)
@on_database()
def why(app: App, out: Out, job_id: int) -> None:
    """Say why a job waits, runs or has ended: the first reason that holds, then the others.

    With --app, also what only the App knows: how many of a task or queue may run, how often it is retried.
    """
    reason = app.why(job_id)
    if out.as_json:
        out.json({"id": str(job_id), **why_as_dict(reason)})
        return
    out.say(reason.sentence)
    for other in reason.others:
        out.say(f"also: {other.sentence}", "dim")


def why_as_dict(reason: Why) -> dict[str, object]:
    return {
        "kind": reason.kind,
        "sentence": reason.sentence,
        "until": reason.until,
        "job": None if reason.job is None else str(reason.job),
        "pace": reason.pace,
        "queue": reason.queue,
        "others": [why_as_dict(each) for each in reason.others],
    }


def _fields(out: Out, job: Job[Any], reason: Why, now: int) -> None:
    fields: list[tuple[str, object]] = [
        ("id", job.id),
        ("task", job.task),
        ("queue", f"{job.queue}, priority {job.priority}{', alone' if job.alone else ''}"),
        ("phase", job.phase),
        ("why", reason.sentence),
        ("asked for", ago(job.at, now)),
        ("due", ago(job.due, now) if job.state == "open" else None),
        ("settled", ago(job.settled, now)),
        ("failures", f"{job.failures}, crashes alone {job.crashes}"),
        ("worker", job.worker),
        ("key", job.key),
        ("serial", job.serial),
        ("after", job.after),
        ("expires", ago(job.expires, now)),
        ("cancelling", job.cancelling),
        ("progress", job.stored_progress),
    ]
    for name, value in fields:
        if value is not None:
            text = escaped(str(value))
            line = Text.assemble((f"{name:<11}", "dim"), (text, STYLES.get(text, "")))
            out.console.print(line, soft_wrap=True)


def _block(out: Out, name: str, text: str) -> None:
    """A longer text, wrapped under its name."""
    out.console.print(Text(name, style="dim"))
    for line in text.split("\n"):
        out.console.print(Text("  " + escaped(line)), soft_wrap=True)


def _took(attempt: Attempt) -> str | None:
    return None if attempt.started is None else human(max(0, attempt.ended - attempt.started))


def _attempt(each: Attempt) -> dict[str, object]:
    return {
        "fence": each.number,
        "outcome": each.outcome,
        "worker": None if each.worker is None else str(each.worker),
        "started": each.started,
        "ended": each.ended,
        "error": each.error,
    }


def as_dict(job: Job[Any]) -> dict[str, object]:
    return {
        "id": str(job.id),
        "task": job.task,
        "queue": job.queue,
        "priority": job.priority,
        "phase": job.phase,
        "state": job.state,
        "key": job.key,
        "at": job.at,
        "due": job.due,
        "settled": job.settled,
        "expires": job.expires,
        "failures": job.failures,
        "crashes": job.crashes,
        "fence": job.fence,
        "worker": None if job.worker is None else str(job.worker),
        "serial": job.serial,
        "after": None if job.after is None else str(job.after),
        "owner": job.owner,
        "cancelling": job.cancelling,
        "arguments": plain(job.payload),
        "payload": job.payload,
        "result": plain(job.stored_result),
        "progress": plain(job.stored_progress),
        "error": job.error,
    }


@jobs.command(
    epilog=examples(
        "duework jobs retry 251234567890123456", "duework jobs retry 251234567890123456 --now"
    )
)
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--now", is_flag=True, help="Also let jobs run now that wait for a time.")
@on_database()
def retry(app: App, out: Out, ids: tuple[int, ...], *, now: bool) -> int:
    """Open settled jobs again, due at once. A job that is open stays as it is, unless --now is said."""

    def open_again(identifier: int) -> str:
        outcome = app.revive(identifier)
        if outcome != "open":
            return outcome
        job = app.job(identifier)
        if now and job.phase == "waiting":
            job.run_now()
            return "due now"
        return outcome if out.as_json else _unchanged(job, app.now())

    return each_of(out, ids, open_again)


def _unchanged(job: Job[Any], now: int) -> str:
    hint = "; --now lets it run now" if job.phase == "waiting" and job.due < FOREVER else ""
    when = f", due {ago(job.due, now)}" if hint else ""
    return f"is {job.phase}{when}: nothing was changed{hint}"


@jobs.command(
    epilog=examples(
        "duework jobs move 251234567890123456 --delay 1h",
        "duework jobs move 251234567890123456 --at 2026-12-24T18:00:00+01:00",
    )
)
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--delay", help="Due after this time, such as 10m.")
@click.option("--at", help="Due at this time, with its offset from UTC.")
@on_database()
def move(app: App, out: Out, ids: tuple[int, ...], delay: str | None, at: str | None) -> int:
    """Let jobs that wait be due at another time. One that runs, or has ended, stays as it is."""
    if (delay is None) == (at is None):
        raise UsageError("say when: --delay 10m, or --at 2026-12-24T18:00:00+01:00")
    return each_of(out, ids, lambda job: f"due {ago(app.move(job, delay, at=at).due, app.now())}")


@jobs.command(epilog=examples('duework jobs cancel 251234567890123456 --why "ordered twice"'))
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--why", default="cancelled by hand", show_default=True, help="Kept with the job.")
@on_database()
def cancel(app: App, out: Out, ids: tuple[int, ...], why: str) -> int:
    """End jobs. One that runs is told to stop by its worker; one that has ended stays so."""
    return each_of(out, ids, lambda job: app.cancel(job, why))


def each_of(out: Out, ids: tuple[int, ...], verb: Callable[[int], str]) -> int:
    """Do it to each job; one that cannot be done is reported and does not stop the others."""
    worst = OK
    for job in ids:
        try:
            outcome = verb(job)
        except Error as error:
            worst = fail(error.code, str(error), exit_code(error), as_json=out.as_json)
            if worst != FAILED:
                return worst
        else:
            if out.as_json:
                out.json({"id": str(job), "outcome": outcome})
            else:
                out.say(f"{job} {outcome}")
    return worst
