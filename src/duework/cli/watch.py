"""`duework status --watch`: the same page again and again, until Ctrl-C.

Each look is one `status` and one `needs`, both bounded, and there is none between two; whoever watches costs
the same however many jobs there are.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.live import Live
from rich.text import Text

from duework import DatabaseError
from duework.cli.out import Out
from duework.clock import pause

Show = Callable[[Out], None]


def watch(out: Out, show: Show, *, every: float, times: int | None) -> None:
    """Draw what `show` prints, so often and so many times; Ctrl-C ends it in order."""
    looks: Iterable[int] = itertools.count() if times is None else range(times)
    try:
        if out.as_json or not out.console.is_terminal:
            for number in looks:
                _again(number, every)
                show(out)
                out.console.file.flush()
        else:
            _draw(out, show, looks, every)
    except KeyboardInterrupt:
        # It is how one leaves.
        return


def _draw(out: Out, show: Show, looks: Iterable[int], every: float) -> None:
    with Live(console=out.console, auto_refresh=False, screen=True) as live:
        for number in looks:
            _again(number, every)
            live.update(_page(out.console, show), refresh=True)


def _again(number: int, every: float) -> None:
    if number:
        pause(every)


def _page(console: Console, show: Show) -> Text:
    """What it prints, cut to the height of the terminal."""
    drawn = io.StringIO()
    page = Out(as_json=False)
    page.console = Console(
        file=drawn,
        width=console.width,
        force_terminal=True,
        color_system=console.color_system,  # type: ignore[arg-type]  # as that one says it
        highlight=False,
        markup=False,
        emoji=False,
    )
    try:
        show(page)
    except DatabaseError as error:
        page.say(f"the database does not answer: {error}", "red")
    lines = drawn.getvalue().splitlines()
    if len(lines) > console.height - 1:
        lines = [*lines[: console.height - 2], f"… {len(lines) - console.height + 2} more lines"]
    return Text.from_ansi("\n".join(lines), no_wrap=True)
