"""How many reminders fired on each of seven days, drawn on the server.

As in every chart of ours x is a percentage and y a pixel, and colours are classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

HEIGHT, LEFT = 104, 11.0
DAYS = 7
LABEL = "reminders that fired on each of the last seven days: those that went well, and the others"


def week(bars: Sequence[tuple[str, int, int]]) -> str:
    """Bars with a name, what went well and what did not, as SVG text."""
    top = _round(max([good + bad for _, good, bad in bars] or [0]))
    base, high = HEIGHT - 22.0, HEIGHT - 34.0
    width = (100 - LEFT) / max(1, len(bars))
    parts = [_grid(base - share * high, round(top * share)) for share in (0.5, 1.0)]
    for place, (name, good, bad) in enumerate(bars):
        x = LEFT + place * width
        tall = good / top * high
        parts.append(_bar(x, width, base, tall, "f-run", f"{name}: {good} went well"))
        parts.append(
            _bar(x, width, base - tall, bad / top * high, "f-fail", f"{name}: {bad} failed")
        )
        parts.append(_word(x + width / 2, HEIGHT - 6, name, "mid"))
    parts.append(f'<line x1="{LEFT:g}%" x2="100%" y1="{base:g}" y2="{base:g}" class="base"/>')
    open_ = f'<svg class="chart" height="{HEIGHT}" role="img" aria-label="{LABEL}">'
    return f"{open_}{''.join(parts)}</svg>"


def _bar(x: float, width: float, base: float, height: float, cls: str, tip: str) -> str:
    tall = max(1.5, height) if height > 0 else 0
    where = f'x="{x + width * 0.15:.2f}%" y="{base - tall:.1f}" width="{width * 0.7:.2f}%"'
    return f'<rect {where} height="{tall:.1f}" class="{cls}"><title>{escape(tip)}</title></rect>'


def _grid(y: float, value: int) -> str:
    line = f'<line x1="{LEFT:g}%" x2="100%" y1="{y:g}" y2="{y:g}" class="g"/>'
    return line + _word(LEFT - 0.8, y + 4, f"{value:,}", "end")


def _word(x: float, y: float, words: str, cls: str) -> str:
    return f'<text x="{x:.2f}%" y="{y:g}" class="{cls}">{escape(words)}</text>'


def _round(most: int) -> int:
    """An even number that is not below the highest bar, with few digits."""
    step = 2
    while step * 5 < most:
        step *= 5 if str(step)[0] == "2" else 2
    return max(2, -(-most // step) * step)
