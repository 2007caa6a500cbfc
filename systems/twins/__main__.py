"""Runs twins for people who build clients: a table of addresses, and a page to watch and to disturb."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from systems.twins import KINDS, Twins, twins
from systems.twins.kit.board import board
from systems.twins.kit.clock import Now, scaled

PORT = 8470

EXAMPLES = """\b
Examples:
  python -m systems.twins --all
  python -m systems.twins --only github,strava --seed 7
  python -m systems.twins --only resend,hooks --json
  DUEWORK_CLOCK=60 python -m systems.twins --all    an hour passes each minute

\b
Then, from anywhere on this machine:
  curl -s localhost:8471/_twin            what it is, its routes and switches
  curl -s localhost:8471/_twin/ledger     what was really delivered
  curl localhost:8471/_twin/faults -d '[{"calls": "1", "do": "drop_after"}]'
"""


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--all", "everything", is_flag=True, help="Run all of them.")
@click.option("--only", metavar="NAMES", help=f"Run some, by comma: {', '.join(KINDS)}.")
@click.option("--seed", default=0, show_default=True, help="What invented data comes from.")
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    help="The page's; the twins have the next ones. 0 takes any that are free.",
)
@click.option(
    "--https", is_flag=True, help="Serve by https, and SMTP with STARTTLS, under a test CA."
)
@click.option("--json", "as_json", is_flag=True, help="Print the addresses as one line of JSON.")
@click.option(
    "--clock",
    envvar="DUEWORK_CLOCK",
    metavar="SPEED",
    help="A speed such as 60, or 60@<virtual ms>/<boot ms>; also DUEWORK_CLOCK.",
)
def main(
    *,
    everything: bool,
    only: str | None,
    seed: int,
    port: int,
    https: bool,
    as_json: bool,
    clock: str | None,
) -> None:
    """Run twins: stand-ins for the outside world, with faults on demand and books of their own."""
    names = _names(only, everything=everything)
    found = twins(
        _clock(clock),
        *names,
        seed=seed,
        https=names if https else (),
        port=port + 1 if port else 0,
    )
    try:
        with found, _stopped_by_signals() as stop:
            page = found.run(found.listen(board(found.all), port))
            _show(found, page, as_json=as_json, https=https)
            stop.wait()
            if not as_json:
                _score(found)
    except OSError as problem:
        if problem.errno not in {errno.EADDRINUSE, errno.EACCES}:
            raise
        raise click.ClickException(
            f"{problem.strerror or problem}: choose other ports by --port, or any by --port 0"
        ) from problem


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _names(only: str | None, *, everything: bool) -> list[str]:
    if everything == (only is not None):
        raise click.UsageError("choose either --all or --only NAMES")
    names = list(KINDS) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in KINDS:
            raise click.BadParameter(f"there is no twin {name!r}; there are {', '.join(KINDS)}")
    return list(dict.fromkeys(names))


def _clock(text: str | None) -> Now | None:
    if text is None:
        return None
    try:
        return scaled(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from problem


def _show(found: Twins, page: str, *, as_json: bool, https: bool) -> None:
    if as_json:
        shown: dict[str, Any] = {
            "page": page,
            "pid": os.getpid(),
            "ca": str(found.ca) if https else None,
            "twins": {twin.name: {"url": twin.url, **twin.samples()} for twin in found.all},
        }
        click.echo(json.dumps(shown))
        return
    width = max(len(twin.name) for twin in found.all) + 2
    for twin in found.all:
        click.echo(f"{twin.name:{width}}{twin.url}")
        for name, value in twin.samples().items():
            click.echo(f"{'':{width}}{name}: {value}")
    if https:
        click.echo(f"\nCertificate of the test CA: {found.ca}")
    click.echo(f"\nWatch and disturb them: {page}        (Ctrl-C stops)")


def _score(found: Twins) -> None:
    for twin in found.all:
        over = len(twin.log.over_limit())
        more = f", {over} over the limit" if over else ""
        click.echo(
            f"{twin.name}: {len(twin.ledger.entries)} delivered, {twin.log.calls} calls{more}"
        )


if __name__ == "__main__":
    main()
