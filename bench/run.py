"""`make bench`: runs the scenarios several times in turn, prints a table, keeps every sample.

    python -m bench.run                      everything but the peers and 10 M rows
    python -m bench.run --peers              with every library one would use instead
    python -m bench.run --quick --scenarios drain,latency

A round runs every scenario once; the rounds follow each other, so that a slow minute of the machine
falls on all of them, and ratios are formed within a round.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import history, report, table
from bench.bed import Bed, Missing
from bench.history import Record
from bench.machine import commit, machine
from bench.scenarios import peers

SCENARIOS = (
    *("raw_sqlite", "raw_postgres", "enqueue", "drain", "busy", "latency", "idle", "backlog"),
    *("head", "crowd", "kill", "snapshot", "batch", "schedules", "pace", "objects", "workflows"),
)
LEAST = 3


def main() -> int:
    options = _arguments()
    console = Console(width=None if sys.stdout.isatty() else table.WIDTH)
    chosen = _chosen(options.scenarios, with_peers=options.peers)
    start = monotonic()
    bed = Bed(quick=options.quick, huge=options.huge, peers=options.peers)
    try:
        about = machine(bed)
        rounds = Rounds(bed, console)
        rounds.run(chosen, options.repeat)
        about |= peers.servers(bed)
    finally:
        bed.close()
    sha, dirty = commit()
    record = Record(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=sha,
        dirty=dirty,
        full=not (options.quick or options.scenarios) and options.repeat >= LEAST,
        peers=options.peers,
        repeat=options.repeat,
        seconds=round(monotonic() - start, 1),
        machine=about,
        samples=rounds.samples,
        missing=rounds.missing,
        failed=rounds.failed,
        took=rounds.took,
    )
    own = [figure for scenario in chosen for figure in scenario.FIGURES if ":" not in figure.name]
    table.show(console, own, record)
    _warn(console, record)
    if options.history:
        history.append(record)
        report.write()
    return 1 if rounds.failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--scenarios", default="", help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--repeat", type=int, default=LEAST, help="rounds; 3 or more count")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--quick", action="store_true", help="small counts; says little")
    parser.add_argument("--huge", action="store_true", help="also 10 M rows, which takes a while")
    parser.add_argument(
        *("--history",),
        action=argparse.BooleanOptionalAction,
        default=True,
        help="add a line to history.jsonl and write README.md anew",
    )
    return parser.parse_args()


def _chosen(names: str, *, with_peers: bool) -> list[Any]:
    """Scenario modules, and one scenario for each peer."""
    wanted = names.split(",") if names else list(SCENARIOS)
    if unknown := set(wanted) - set(SCENARIOS):
        sys.exit(f"no scenario {', '.join(sorted(unknown))}; there are: {', '.join(SCENARIOS)}")
    found: list[Any] = [importlib.import_module(f"bench.scenarios.{name}") for name in wanted]
    return [*found, *(peers.scenarios() if with_peers else ())]


def _name(scenario: Any) -> str:
    named: str = getattr(scenario, "NAME", "") or scenario.__name__.rpartition(".")[2]
    return named


class Rounds:
    """Runs the scenarios in turn and gathers what they answer."""

    def __init__(self, bed: Bed, console: Console) -> None:
        self._bed = bed
        self._console = console
        self.samples: dict[str, list[float]] = {}
        self.missing: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.took: dict[str, list[float]] = {}

    def run(self, chosen: Sequence[Any], repeat: int) -> None:
        seen = self._console.is_terminal
        columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn())
        # A bar that moves more often would take time from what is measured.
        with Progress(
            *(*columns, TimeElapsedColumn()),
            console=self._console,
            refresh_per_second=1,
            transient=True,
            disable=not seen,
        ) as bar:
            task = bar.add_task("", total=repeat * len(chosen))
            for turn, scenario in itertools.product(range(repeat), chosen):
                name = _name(scenario)
                bar.update(task, description=f"round {turn + 1}: {name}")
                if name not in self.missing and name not in self.failed:
                    self._sample(scenario, name)
                    if not seen:
                        words = f"round {turn + 1}: {name}, {self.took[name][-1]} s"
                        self._console.print(words, highlight=False)
                bar.advance(task)

    def _sample(self, scenario: Any, name: str) -> None:
        start = monotonic()
        try:
            for figure, value in scenario.sample(self._bed).items():
                self.samples.setdefault(figure, []).append(value)
        except Missing as reason:
            self.missing[name] = str(reason)
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            self.failed[name] = f"{type(error).__name__}: {error}"[:600]
        self.took.setdefault(name, []).append(round(monotonic() - start, 1))


def _warn(console: Console, record: Record) -> None:
    """What makes a run worth less than it looks."""
    about = record.machine
    warnings = []
    if {about["file_system"], about["postgres_file_system"]} & {"tmpfs", "ramfs"}:
        warnings.append("the files lie in memory, where an fsync costs nothing; set TMPDIR")
    if about["load_before"] > 0.5 * (os.cpu_count() or 1):
        warnings.append(f"the machine was busy before the run (load {about['load_before']})")
    if not record.full:
        warnings.append("not a full run: bench/README.md goes on showing the last one")
    for warning in warnings:
        console.print(f"[yellow]{warning}[/]", highlight=False)
    console.print(f"{record.seconds:.0f} s, commit {record.commit}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
