"""Charts of strides as SVG text: x is a percentage, y is a pixel, colours are classes of the style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from markupsafe import Markup

STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "")
CELL, GAP, LEFT, TOP = 14, 3, 28, 16


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _title(words: str) -> str:
    return f"<title>{escape(words)}</title>" if words else ""


def bar(share: float, label: str) -> Markup:
    """How much is done; what is not nothing is seen."""
    width = max(0.6, share * 100) if share > 0 else 0
    inside = f'<rect x="0" y="0" width="{_n(width)}%" height="12" class="f-done"/>'
    return _markup(f'<svg class="bar lg" role="img" aria-label="{escape(label)}">{inside}</svg>')


def nice(value: float) -> float:
    """The next round number: the top of a scale."""
    scale = 1.0
    while scale * 10 <= value:
        scale *= 10
    return next(scale * step for step in STEPS if scale * step >= value)


def columns(values: Sequence[int], label: str, height: int = 84) -> Markup:
    """A column for each page, with its number below it."""
    base, high, left = height - 22.0, height - 34.0, 6.0
    top, width = nice(max([*values, 1])), (100 - 6.0) / max(1, len(values))
    out = []
    for share in (0.5, 1.0):
        y = base - share * high
        out.append(f'<line x1="{left}%" x2="100%" y1="{_n(y)}" y2="{_n(y)}" class="g"/>')
        words = f"{top * share:g}"
        out.append(f'<text x="{left - 0.8}%" y="{_n(y + 4)}" class="end">{words}</text>')
    every = max(1, len(values) // 13)
    for number, value in enumerate(values):
        x, tall = left + number * width, max(1.5, value / top * high) if value else 0
        where = f'x="{_n(x + width * 0.15)}%" y="{_n(base - tall)}" width="{_n(width * 0.7)}%"'
        tip = _title(f"page {number + 1}: {value}")
        out.append(f'<rect {where} height="{_n(tall)}" class="f-run">{tip}</rect>')
        if number % every == 0:
            centre = _n(x + width / 2)
            out.append(f'<text x="{centre}%" y="{height - 6}" class="mid">{number + 1}</text>')
    out.append(f'<line x1="{left}%" x2="100%" y1="{_n(base)}" y2="{_n(base)}" class="base"/>')
    named = f'role="img" aria-label="{escape(label)}"'
    return _markup(f'<svg class="chart" height="{height}" {named}>{"".join(out)}</svg>')


def heat(
    days: Sequence[tuple[int, str]], months: Sequence[tuple[int, str]], first: int, label: str
) -> Markup:
    """A calendar: a column for each week, Monday on top; level 0 to 4 and words for each day."""
    pitch = CELL + GAP
    weeks = (first + len(days) + 6) // 7
    out = [f'<text x="{LEFT + week * pitch}" y="10">{name}</text>' for week, name in months]
    out += [
        f'<text x="0" y="{TOP + row * pitch + 9}">{name}</text>'
        for row, name in enumerate(WEEKDAYS)
        if name
    ]
    for number, (level, tip) in enumerate(days, first):
        x, y = LEFT + number // 7 * pitch, TOP + number % 7 * pitch
        where = f'x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="2"'
        out.append(f'<rect {where} class="q{level}">{_title(tip)}</rect>')
    wide, high = LEFT + weeks * pitch, TOP + 7 * pitch
    box = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    named = f'role="img" aria-label="{escape(label)}"'
    return _markup(f'<svg class="chart" {box} {named}>{"".join(out)}</svg>')


def swatch(level: int) -> Markup:
    inside = f'<rect width="10" height="10" rx="2" class="q{level}"/>'
    return _markup(f'<svg aria-hidden="true">{inside}</svg>')


def _markup(text: str) -> Markup:
    return Markup(text)  # noqa: S704 - every word in it was escaped above
