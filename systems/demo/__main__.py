"""`make demo`: five systems on local stand-ins, live, disturbed on purpose, with the receivers' score."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from duework import Scaled
from systems.demo.stage import ROOT, Stage, StageError, standing

FOLDER = ROOT / "build" / "demo"
MINUTE = 60_000
USUAL = 60
# The demo begins at twenty to eight in the evening, in Lisbon and in UTC.
EVENING = (19 * 60 + 40) * MINUTE
DAY = 24 * 60 * MINUTE

EXAMPLES = """\b
Examples:
  make demo                                until Ctrl-C; again, and it goes on
  make demo DEMO_ARGS=--check              headless, judged, in three minutes
  make demo DEMO_ARGS="--reset --speed 1"  from the beginning, in real time
  make demo DEMO_ARGS="--port 9000"        the pages at another port
"""


@click.command(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--check", is_flag=True, help="Play the script headless and judge the score.")
@click.option("--reset", is_flag=True, help="Forget the last run and begin anew.")
@click.option("--speed", default=float(USUAL), show_default=True, help="How fast the clock goes.")
@click.option(
    "--port",
    default=8377,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Of the pages; a free one if it is taken.",
)
@click.option("--workers", default=2, show_default=True, help="Worker processes.")
@click.option("--url", help="Another database, such as postgresql://… [a file in build/demo].")
@click.option("--folder", type=Path, default=FOLDER, help="Where it keeps its files [build/demo].")
def main(
    *,
    check: bool,
    reset: bool,
    speed: float,
    port: int,
    workers: int,
    url: str | None,
    folder: Path,
) -> None:
    """Five systems on local stand-ins, one database, disturbed on purpose; the receivers keep score."""
    console = Console(width=None if sys.stdout.isatty() else 100, soft_wrap=True)
    folder = folder / ("check" if check else "live")
    if reset or check:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    where = url or f"sqlite:///{folder / 'work.db'}"
    begins = _stopped_at(folder) or _evening()
    clock = Scaled(speed, now=begins)
    stage = Stage(folder, clock=clock, url=where, port=port, workers=workers)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with standing(stage):
            sys.exit(_play(stage, console, begins, check=check))
    except StageError as error:
        raise click.ClickException(str(error)) from None


def _play(stage: Stage, console: Console, begins: int, *, check: bool) -> int:
    where = "one SQLite file" if "sqlite" in stage.environment["DUEWORK_URL"] else "PostgreSQL"
    speed = float(stage.environment["DUEWORK_CLOCK"].partition("@")[0])
    fast = (
        "an hour passes each minute"
        if speed == USUAL
        else f"the clock runs {speed:g} times as fast"
    )
    console.print(f"[bold]Duework[/] · five systems on local stand-ins\n{where} · {fast}")
    if stage.remark:
        console.print(stage.remark, highlight=False, markup=False)
    stage.start_twins()
    os.environ.update(stage.environment)
    # Only now: the systems read where their twins are when they are imported.
    from systems.demo.app import app
    from systems.demo.director import Director, table, verdicts
    from systems.demo.part import keep, kept
    from systems.demo.script import steps

    with closing(app):
        if kept(app, "start") is None:
            keep(app, "start", begins)
        stage.start_work()
        director = Director(app, stage, console)
        # On a line of its own: nothing but the link is opened, or copied.
        console.print("Open this link; Ctrl-C stops and prints the score.", highlight=False)
        console.print(f"{stage.link}\n", highlight=False, soft_wrap=True)
        try:
            _perform(director, steps(), stage.folder, check=check)
        except KeyboardInterrupt:
            console.print("\nstopped; start it again and it goes on from here")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        told = director.take_score()
        table(told, app, lambda text: console.print(text, highlight=False))
        wrong = verdicts(app, told) if check else []
        for sentence in wrong:
            console.print(f"[red]wrong:[/] {sentence}", highlight=False)
        director.close()
        (stage.folder / "stopped").write_text(str(app.now()))
    return 1 if wrong else 0


def _perform(director: Any, script: Any, folder: Path, *, check: bool) -> None:
    played = folder / "played"
    if (folder / "stopped").exists():
        director.script.go_on()
    if not played.exists():
        director.play(script)
        played.write_text("the script was played to its end\n")
    if check:
        director.settle()
    else:
        director.console.print("\nNow you: the page Break it has six things to break.")
        director.stay()


def _evening() -> int:
    """Twenty to eight of today, so that an hour begins twenty seconds after the start."""
    now = time.time_ns() // 1_000_000
    return now - now % DAY + EVENING


def _stopped_at(folder: Path) -> int | None:
    """The virtual time at which the last run stopped: a night off is no month of missed slots."""
    file = folder / "stopped"
    return int(file.read_text()) if file.exists() else None


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
