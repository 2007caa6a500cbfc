"""How commands print: tables for people, JSON for scripts, progress on stderr.

Whatever comes from a job is escaped: it cannot move the cursor, change colours or end the line.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from duework.clock import FOREVER
from duework.durations import human
from duework.observe.log import escaped

# Between columns, and what is left of one that has to give way.
GAP = 2
NARROWEST = 8

STYLES = {
    "failed": "red",
    "problem": "red",
    "dead": "red",
    "expired": "red",
    "warning": "yellow",
    "paused": "yellow",
    "unknown": "yellow",
    "misfit": "yellow",
    "running": "cyan",
    "done": "green",
    "ok": "green",
    "alive": "green",
}


def fail(code: str, message: str, status: int, *, as_json: bool) -> int:
    """Say what went wrong, where the reader expects it; returns the exit code."""
    if as_json:
        print_json({"error": {"code": code, "message": message}})
    else:
        lines = "\n".join(escaped(line) for line in message.splitlines())
        sys.stderr.write(f"Error: {lines}\n")
    return status


def print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


class Out:
    """Where one command prints."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, markup=False, emoji=False)

    def json(self, value: object) -> None:
        print_json(value)

    def say(self, text: str, style: str = "") -> None:
        """A line for people; nothing in JSON mode."""
        if not self.as_json:
            self.console.print(Text(escaped(text), style=style), soft_wrap=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Heads: '>name' is a number, '!name' is never cut, '*name' wraps; others are cut to fit.

        Without any name there is no line of heads.
        """
        kinds = [head[:1] if head[:1] in {">", "*", "!"} else "" for head in heads]
        names = [head.removeprefix(kind) for head, kind in zip(heads, kinds, strict=True)]
        cells = [[cell(value) for value in row] for row in rows]
        natural = [
            max(len(name), *(row[place].cell_len for row in cells), 1)
            for place, name in enumerate(names)
        ]
        widths = _fitted(natural, kinds, self.console.width - GAP * (len(heads) - 1))
        table = Table(
            box=None,
            show_header=any(names),
            header_style="bold",
            pad_edge=False,
            padding=(0, GAP, 0, 0),
        )
        for name, kind, width in zip(names, kinds, widths, strict=True):
            table.add_column(
                name,
                justify="right" if kind == ">" else "left",
                no_wrap=kind != "*",
                overflow="fold" if kind == "*" else "ellipsis",
                width=width,
            )
        for row in cells:
            table.add_row(*row)
        self.console.print(table)

    @contextlib.contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
        """A bar on stderr while something long runs, where there is somebody to see it."""
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
        )
        with Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as bar:
            task = bar.add_task(what, total=total)

            def move(advance: int = 0, **more: Any) -> None:
                bar.update(task, advance=advance, **more)

            yield move


def _fitted(natural: Sequence[int], kinds: Sequence[str], room: int) -> list[int]:
    """Column widths: the widest that may shrink gives way until all fit."""
    widths = list(natural)
    while sum(widths) > room:
        loose = [p for p, kind in enumerate(kinds) if kind in {"", "*"} and widths[p] > NARROWEST]
        if not loose:
            break
        widest = max(loose, key=lambda place: widths[place])
        widths[widest] -= 1
    return widths


def cell(value: object) -> Text:
    if value is None:
        return Text("-", style="dim")
    text = escaped(str(value))
    return Text(text, style=STYLES.get(text, ""))


def first_line(text: str | None) -> str | None:
    return None if text is None else text.partition("\n")[0]


def ago(when: int | None, now: int) -> str | None:
    """A time as people say it: '5m ago', 'in 2h'."""
    if when is None:
        return None
    if when >= FOREVER:
        return "parked"
    if abs(when - now) < 1000:  # noqa: PLR2004 - a second
        return "now"
    length = human(abs(when - now)).partition(" ")[0]
    return f"in {length}" if when > now else f"{length} ago"


def at_least(count: int, bound: int = 100_000) -> str:
    return f"{count}+" if count >= bound else str(count)


def plain(text: str | None) -> Any:
    """Stored JSON as data; None if it cannot be read."""
    if text is None:
        return None
    try:
        value = json.loads(text)
        json.dumps(value)
    except (ValueError, RecursionError):
        return None
    return value
