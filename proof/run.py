"""`make proof`: runs every section under its faults and writes PROOF.md.

    python -m proof.run                       everything, at full scale; takes a while
    python -m proof.run --short               the same at the scale of the tests
    python -m proof.run --only killpoints     one section (may be given more than once)
    python -m proof.run --seed 7 --json       other choices where there are any; results as JSON

Each section runs in a process of its own, so that one which breaks takes no other with it. What came of a
section at full scale is kept in build/proof. PROOF.md is written once there is such a result of every one,
from the last of each, with the commit that it was seen on; any other run leaves its page in build/proof.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from proof import report
from proof.machine import ROOT, commit, machine
from proof.report import Entry
from proof.section import WIRE, Result, Scale, Section

SECTIONS = (
    *("killpoints", "powerloss", "diskerrors", "flips", "storm", "shapestorm", "postgres"),
    *("partition", "simulation", "clocks", "versions", "crowd", "month", "mails"),
    *("day", "syncs", "scout", "scoutdays"),
)
SEED = 1
# The last result of each section at full scale, kept beside the page that is made of them; and a page of a
# short run, which says less.
KEPT = ROOT / "proof" / "results"
SHORT_PAGE = ROOT / "build" / "proof" / "PROOF.md"
# A section that takes longer hangs.
LIMIT_SECONDS = {"short": 600.0, "full": 7200.0}


def main() -> int:
    options = _arguments()
    if options.child:
        return _child(options.child, options.scale, options.seed)
    # A section runs in a session of its own: whoever ends this process means that one too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    scale: Scale = "short" if options.short else "full"
    console = Console(stderr=options.json, width=None if sys.stdout.isatty() else 110)
    entries = run(options.only or list(SECTIONS), scale, options.seed, console)
    about = report.About(scale=scale, machine=machine())
    page = ROOT / "PROOF.md" if scale == "full" else SHORT_PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(_page(about, entries))
    if options.json:
        plain = [{**asdict(entry), "problems": entry.result.problems()} for entry in entries]
        print(json.dumps({**asdict(about), "sections": plain}, indent=2))
    _say(console, entries, page)
    return 1 if any(entry.result.problems() for entry in entries) else 0


def _page(about: report.About, entries: list[Entry]) -> str:
    """Of a full run with the last results of the sections that were left out, so far as there are some."""
    if about.scale == "short":
        return report.page(about, entries)
    last = {name: kept(name) for name in SECTIONS}
    known = [entry for entry in last.values() if entry is not None]
    return report.page(about, known, [load(name).title for name in SECTIONS if last[name] is None])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof.run", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--short", action="store_true", help="the scale of the tests")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="this section")
    parser.add_argument("--seed", type=int, default=SEED, help="where there is something to choose")
    parser.add_argument("--json", action="store_true", help="results as JSON on standard output")
    parser.add_argument("--child", choices=SECTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--scale", choices=("short", "full"), help=argparse.SUPPRESS)
    return parser.parse_args()


def load(name: str) -> Section:
    section: Section = importlib.import_module(f"proof.{name}").SECTION
    return section


def run(names: list[str], scale: Scale, seed: int, console: Console) -> list[Entry]:
    """The sections one after the other, each in a process of its own."""
    sections = {name: load(name) for name in names}
    quiet = _now_and_then(console)
    entries: list[Entry] = []
    columns = (TextColumn("{task.description:<48}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        for name, section in sections.items():
            task = bar.add_task(name, total=None)

            def hear(said: dict[str, Any], task: Any = task, name: str = name) -> None:
                what, done, total = said["what"], said["done"], said["total"] or None
                bar.update(task, description=f"{name}: {what}"[:48], completed=done, total=total)
                quiet(f"  {name}: {what}, {done} of {total or '?'}")

            started, began = monotonic(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
            result = _in_a_process(name, scale, seed, hear)
            took = monotonic() - started
            entry = Entry(name, section.title, section.promise, result, took, began, commit())
            entries.append(entry)
            if scale == "full":
                keep(entry)
            bar.update(task, description=name, completed=1, total=1)
            bar.stop_task(task)
            if not console.is_terminal:
                console.print(
                    f"{name}: {report.verdict(entry)}, {entry.seconds:.1f} s", highlight=False
                )
    return entries


def keep(entry: Entry) -> None:
    """So that a section can be run again without the others."""
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{entry.name}.json").write_text(json.dumps(asdict(entry), indent=2) + "\n")


def kept(name: str) -> Entry | None:
    try:
        known = json.loads((KEPT / f"{name}.json").read_text())
    except FileNotFoundError:
        return None
    return Entry(**{**known, "result": Result(**known["result"])})


def _now_and_then(console: Console) -> Callable[[str], None]:
    """For a log, where no bar moves: a line in each minute."""
    last = monotonic()

    def say(words: str) -> None:
        nonlocal last
        if not console.is_terminal and monotonic() - last > 60:
            last = monotonic()
            console.print(words, highlight=False)

    return say


def _in_a_process(
    name: str, scale: Scale, seed: int, hear: Callable[[dict[str, Any]], None]
) -> Result:
    """Run a section apart; what it says on the way is heard, its last word is the result."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "proof.run", "--child", name, "--scale", scale]
    process = subprocess.Popen(
        [*command, "--seed", str(seed)],
        cwd=ROOT,
        env={**os.environ, WIRE: str(writing)},
        pass_fds=(writing,),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(writing)
    result: Result | None = None
    limit = threading.Timer(LIMIT_SECONDS[scale], lambda: os.killpg(process.pid, signal.SIGKILL))
    limit.daemon = True
    limit.start()
    try:
        with open(reading) as wire:
            for line in wire:
                said = json.loads(line)
                if "result" in said:
                    result = Result(**said["result"])
                    break
                hear(said)
        if result is not None:
            process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        result = None
    finally:
        limit.cancel()
        code = _ended(process)
    return result or Result(seed=seed, violations=[f"the section ended without a result ({code})"])


def _ended(process: subprocess.Popen[bytes]) -> int:
    """End it if it has not ended by itself; a moment to clear up after itself, and no longer."""
    for last in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, last)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
    return process.wait()


def _child(name: str, scale: Scale, seed: int) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    result = load(name).run(scale, seed)
    os.write(int(os.environ[WIRE]), (json.dumps({"result": asdict(result)}) + "\n").encode())
    return 0


def _say(console: Console, entries: list[Entry], page: Path) -> None:
    table = Table("section", "holds", "seconds", "what happened", "planted bugs found")
    for entry in entries:
        planted = entry.result.planted
        table.add_row(
            entry.name,
            report.verdict(entry),
            f"{entry.seconds:.0f}",
            ", ".join(
                f"{report.number(value)} {name}" for name, value in entry.result.counts.items()
            ),
            f"{sum(planted.values())} of {len(planted)}",
        )
    console.print(table)
    for entry in entries:
        for problem in entry.result.problems()[:20]:
            console.print(f"[red]{entry.name}[/]: {problem}", highlight=False)
    console.print(f"written: {page.relative_to(ROOT)}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
