"""`duework run`: a worker, or a supervisor of several."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import click

from duework import App, Error, Unavailable, UsageError, Worker, facts
from duework.cli.base import INTERRUPTED, OK, RECYCLED, check_queue, examples, exit_code, load
from duework.cli.out import fail
from duework.cli.supervise import Command, supervise
from duework.cli.view import View
from duework.observe import log
from duework.web.server import DEFAULT, Address, beside, parse_address

_PR_SET_PDEATHSIG = 1
# How often a start that waits for a lock is tried again.
PARKED_SECONDS = 0.5
# Python's own interval between threads that want to run, and ours, in seconds.
USUAL_SWITCH, SWITCH = 0.005, 0.0005


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line of `run`."""

    processes: int
    queues: str | None
    concurrency: int | None
    threads: int | None
    log_level: str | None
    log_format: str
    view: bool | None
    web: str | None
    public_names: tuple[str, ...]
    token_file: str | None
    supervised: int | None


@click.command(
    epilog=examples(
        "duework run shop.work:app",
        "duework run shop.work:app --processes 4 --queues mail,default",
        "duework run shop.work:app --web 127.0.0.1:8377",
        "DUEWORK_APP=shop.work:app duework run --log-format json",
    )
)
@click.argument("name", metavar="[MODULE:APP]", required=False, envvar="DUEWORK_APP")
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option("--queues", metavar="A,B", help="Only tasks of these queues.")
@click.option(
    "--concurrency", type=click.IntRange(1), help="async tasks at once [of the App: 100]."
)
@click.option("--threads", type=click.IntRange(1), help="def tasks at once [of the App: 10].")
@click.option(
    "--log-level", type=click.Choice(log.LEVELS), help="[info; beside a live view: warning]"
)
@click.option(
    "--log-format",
    type=click.Choice(log.FORMATS),
    default="text",
    show_default=True,
    help="On stderr.",
)
@click.option("--view/--no-view", default=None, help="A live view [on a terminal].")
@click.option(
    "--web",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value=DEFAULT,
    help=f"Serve the pages, too [at {DEFAULT}].",
)
@click.option(
    "--public-name",
    "public_names",
    metavar="NAME",
    multiple=True,
    help="A name that the pages answer to besides localhost.",
)
@click.option("--token-file", metavar="FILE", help="Where the first token goes [beside the file].")
@click.option("--supervised", type=int, hidden=True)
@click.pass_context
def run(context: click.Context, /, name: str | None, **given: Any) -> None:
    """Work: claim what is due, run it, settle it, until told to stop.

    MODULE:APP is the App to work for, found from the current folder [$DUEWORK_APP]. It makes and
    migrates the database if need be. SIGTERM and Ctrl-C stop it: no more jobs are claimed, what runs
    may finish within the grace period, then it is handed back without burning a retry; a second
    signal hands back at once. With --processes a process that dies is replaced.

    With --web it serves the pages as `duework web` does, from this process alone, and stops them last.

    Exit codes: 0 after SIGTERM, 130 after Ctrl-C, 69 when the database cannot be reached,
    74 when the database is gone, 78 for a mistake in the command, the App or the schema.
    """
    options = RunOptions(**given)
    if options.supervised is not None:
        _die_with(options.supervised)
    try:
        if not name:
            raise UsageError("say which App to work for: duework run MODULE:APP, or $DUEWORK_APP")
        code = _run(name, load(name), options)
    except Error as error:
        as_json = options.log_format == "json"
        code = fail(error.code, str(error), exit_code(error), as_json=as_json)
    context.exit(code)


def _run(name: str, app: App, options: RunOptions) -> int:
    try:
        with _pages(app, options):
            if options.processes == 1:
                with _brisk():
                    return asyncio.run(_work(app, options))
            log.configure(options.log_level or "info", options.log_format)
            return asyncio.run(supervise(_command(name, options), options.processes))
    finally:
        app.close()


@contextmanager
def _brisk() -> Iterator[None]:
    """Let threads take turns more often, unless the program has chosen something itself.

    Each statement gives the interpreter up; beside a job that computes, the writer waits this long for it.
    """
    if sys.getswitchinterval() != USUAL_SWITCH:
        yield
        return
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(USUAL_SWITCH)


def _pages(app: App, options: RunOptions) -> AbstractContextManager[Any]:
    """The pages, if they were asked for, for as long as the block runs."""
    if options.web is None:
        return nullcontext()
    host, port = parse_address(options.web)
    return beside(app, Address(host, port, options.public_names, options.token_file), click.echo)


def _command(name: str, options: RunOptions) -> Command:
    """What a supervised process is started with."""
    words = [name, "--no-view", "--log-format", options.log_format]
    for option in ("queues", "concurrency", "threads", "log_level"):
        value = getattr(options, option)
        if value is not None:
            words += [f"--{option.replace('_', '-')}", str(value)]
    return [sys.executable, "-m", "duework", "run", *words, "--supervised", str(os.getpid())]


def _die_with(parent: int) -> None:
    """Be told to stop when the supervisor dies, however it does."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise click.exceptions.Exit(OK)


async def _work(app: App, options: RunOptions) -> int:
    app.limits = replace(
        app.limits,
        async_slots=options.concurrency or app.limits.async_slots,
        thread_slots=options.threads or app.limits.thread_slots,
    )
    names = {each.strip() for each in (options.queues or "").split(",") if each.strip()}
    seen = options.view if options.view is not None else sys.stderr.isatty()
    view = View(app) if seen and options.log_format == "text" else None
    log.configure(options.log_level or ("warning" if view else "info"), options.log_format)
    signals = StopSignals()
    try:
        worker = await _made(app, names)
        signals.worker = worker
        recycled = _recycling(app, worker) if options.supervised is not None else None
        if view is not None:
            app.on_fact(view.see)
            await view.start()
        await worker.run()
    except asyncio.CancelledError:
        if not signals.count:
            raise
        return signals.exit_code
    finally:
        if view is not None:
            await view.stop()
    return RECYCLED if recycled and recycled() and not signals.count else signals.exit_code


async def _made(app: App, names: set[str]) -> Worker:
    """A worker; a lock that another program holds at the start is waited for, as it is later."""

    def make() -> Worker:
        return app.worker({check_queue(app, each) for each in names} or None)

    parked = False
    while True:
        try:
            worker = await asyncio.to_thread(make)
        except Unavailable as error:
            # A server that is not there, or a file that cannot be read, is a mistake more often.
            if "lock" not in str(error):
                raise
            if not parked:
                log.report(facts.Parked(str(error)))
            parked = True
            await asyncio.sleep(PARKED_SECONDS)
        else:
            if parked:
                log.report(facts.Resumed())
            return worker


class StopSignals:
    """SIGTERM and SIGINT stop the worker; the second one does not wait for what runs."""

    def __init__(self) -> None:
        # None until there is one.
        self.worker: Worker | None = None
        self._main = asyncio.current_task()
        self.count = 0
        self.exit_code = OK
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._stop, each)

    def _stop(self, which: signal.Signals) -> None:
        self.count += 1
        at_once = self.count > 1
        if which == signal.SIGINT:
            self.exit_code = INTERRUPTED
        worker = self.worker
        if worker is None:
            assert self._main is not None, "in a task"
            self._main.cancel()
            return
        grace_ms, holding = worker.settings.grace_ms, tuple(worker.holding())
        log.report(log.Stopping(which.name, grace_ms, at_once, holding, os.getpid()))
        worker.stop(0 if at_once else None)


def _recycling(app: App, worker: Worker) -> Callable[[], bool]:
    """A process with a thread that would not stop ends once it holds nothing; it is replaced."""
    asked: list[bool] = []

    def see(fact: facts.Fact) -> None:
        if isinstance(fact, facts.JobSettled) and worker.recycle and worker.idle and not asked:
            asked.append(True)
            worker.stop()

    app.on_fact(see)
    return lambda: bool(asked)
