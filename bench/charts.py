"""Charts as small SVG files: dots on a logarithmic axis, with the range of the samples behind them.

Dots and not bars: the figures lie a thousandfold apart, and the length of a bar on such an axis would
mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 890
LEFT = 280
RIGHT = 110
ROW = 24
TOP = 56

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2430 }
  .title { font-weight: 600; font-size: 15px }
  .faint { fill: #68707f; font-size: 11px }
  .grid { stroke: #d8dce3; stroke-width: 1 }
  .ours { fill: #0f766e } .raw { fill: #7c8494 } .peer { fill: #b45309 }
  .range { stroke-width: 3; stroke-linecap: round; opacity: .45 }
  .range.ours { stroke: #0f766e } .range.raw { stroke: #7c8494 } .range.peer { stroke: #b45309 }
  .line { fill: none; stroke: #0f766e; stroke-width: 2 }
  .page { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e8ee } .faint { fill: #9aa3b2 } .grid { stroke: #363c48 }
    .page { fill: #14171c } .ours { fill: #2dd4bf } .peer { fill: #f59e0b }
    .range.ours, .line { stroke: #2dd4bf } .range.peer { stroke: #f59e0b }
  }
"""


@dataclass(frozen=True)
class Dot:
    """One row of a chart."""

    label: str
    kind: str
    value: float
    low: float
    high: float
    text: str


def dots(title: str, note: str, found: Sequence[Dot]) -> str:
    """A dot for each row, by value."""
    lowest = math.floor(math.log10(min(dot.low for dot in found)))
    highest = math.ceil(math.log10(max(dot.high for dot in found)))
    span = max(1, highest - lowest)
    height = TOP + ROW * len(found) + 30

    def across(value: float) -> float:
        return LEFT + (math.log10(value) - lowest) / span * (WIDTH - LEFT - RIGHT)

    bottom = TOP + ROW * len(found)
    parts = []
    for power in range(lowest, highest + 1):
        x = across(10.0**power)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}"/>')
        label = f"{10.0**power:,.10g}"
        parts.append(
            f'<text class="faint" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>'
        )
    for place, dot in enumerate(found):
        y = TOP + ROW * place + 8
        parts.append(
            f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(dot.label)}</text>'
        )
        low, high = across(dot.low), across(dot.high)
        parts.append(
            f'<line class="range {dot.kind}" x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}"/>'
        )
        parts.append(f'<circle class="{dot.kind}" cx="{across(dot.value):.1f}" cy="{y}" r="5"/>')
        parts.append(
            f'<text class="faint" x="{high + 10:.1f}" y="{y + 4}">{escape(dot.text)}</text>'
        )
    return _page(title, note, height, parts)


def line(title: str, note: str, found: Sequence[tuple[str, float]], bar: float) -> str:
    """A figure over the runs, with its bar."""
    height, floor, ceiling = 240, 200.0, float(TOP)
    top = max(bar, *(value for _, value in found)) * 1.15
    step = (WIDTH - 120) / max(1, len(found) - 1)

    def at(place: int, value: float) -> tuple[float, float]:
        return 60 + step * place, floor - value / top * (floor - ceiling)

    points = [at(place, value) for place, (_, value) in enumerate(found)]
    bar_y = at(0, bar)[1]
    parts = [
        f'<line class="grid" x1="50" y1="{floor}" x2="{WIDTH - 50}" y2="{floor}"/>',
        f'<line class="grid" x1="50" y1="{bar_y:.1f}" x2="{WIDTH - 50}" y2="{bar_y:.1f}"/>',
        f'<text class="faint" x="{WIDTH - 46}" y="{bar_y + 4:.1f}">bar {bar:g}</text>',
        f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>',
    ]
    for (x, y), (label, value) in zip(points, found, strict=True):
        parts.append(f'<circle class="ours" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        parts.append(
            f'<text class="faint" x="{x:.1f}" y="{y - 9:.1f}" text-anchor="middle">{value:.2f}</text>'
        )
        parts.append(
            f'<text class="faint" x="{x:.1f}" y="{floor + 16}" text-anchor="middle">{escape(label)}</text>'
        )
    return _page(title, note, height, parts)


def _page(title: str, note: str, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}">\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{height}"/>\n'
        f'<text class="title" x="16" y="24">{escape(title)}</text>\n'
        f'<text class="faint" x="16" y="41">{escape(note)}</text>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"
