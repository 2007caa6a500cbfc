"""Charts of scout as SVG text: x is a percentage, y is a pixel, colours are classes of the style sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape

from markupsafe import Markup

Series = Mapping[str, Sequence[tuple[int, float]]]
LINES = ("l-run", "l-done", "l-warn", "l-unsure", "l-fail", "l-wait")
FILLS = ("f-run", "f-done", "f-warn", "f-unsure", "f-fail", "f-wait")
LEFT, HIGH, HEIGHT, TOP = 8.0, 96.0, 132, 10.0
STEPS = (1, 2, 2.5, 5, 10)


def bar(value: float, label: str) -> Markup:
    """A score from 0 to 100."""
    width = f"{max(0.0, min(100.0, value)):g}"
    inside = f'<rect x="0" y="0" width="{width}%" height="12" class="f-run"/>'
    return _markup(f'<svg class="bar" role="img" aria-label="{escape(label)}">{inside}</svg>')


def nice(value: float) -> float:
    """The next round number: the end of a scale."""
    scale = 1.0
    while scale * 10 <= value:
        scale *= 10
    return next(scale * step for step in STEPS if scale * step >= value)


def lines(series: Series, label: str, *, ranks: bool = False) -> Markup:
    """Values over time; ranks have the first place on top."""
    shown = dict(list(series.items())[: len(LINES)])
    times = [at for points in shown.values() for at, _ in points]
    if not times:
        return Markup("")
    first, last = min(times), max(times)
    low, high = _scale([value for points in shown.values() for _, value in points], ranks=ranks)
    out = [_grid(low, high, ranks=ranks)]
    body = []
    for place, points in enumerate(shown.values()):
        spots = [(_x(at, first, last), _y(value, low, high, ranks=ranks)) for at, value in points]
        where = " ".join(f"{x * 10:.1f},{y:.1f}" for x, y in spots)
        body.append(f'<polyline points="{where}" class="ln {LINES[place]}"/>')
        out += [_dot(x, y, FILLS[place]) for x, y in (spots if len(spots) < 2 else spots[-1:])]  # noqa: PLR2004 - a line has two ends
    box = f'viewBox="0 0 1000 {HIGH:g}" preserveAspectRatio="none"'
    where = f'x="{LEFT:g}%" y="{TOP:g}" width="{100 - LEFT:g}%" height="{HIGH:g}"'
    out.insert(1, f"<svg {where} {box}>{''.join(body)}</svg>")
    out.append(_days(first, last))
    named = f'role="img" aria-label="{escape(label)}"'
    return _markup(f'<svg class="chart" height="{HEIGHT}" {named}>{"".join(out)}</svg>')


def controller(history: Sequence[tuple[int, int, int, int]], now: int) -> Markup:
    """How many at a time and how often, in percent of the most, and the share of successes."""
    if not history:
        return Markup("")
    points = sorted(history)
    most = max(each[1] for each in points)
    longest = max(each[2] for each in points)
    ends = [*points, (now, *points[-1][1:])]
    series = {
        f"batch, of {most}": [(at, 100 * batch / max(1, most)) for at, batch, _, _ in ends],
        f"interval, of {longest / 1000:g} s": [
            (at, 100 * every / max(1, longest)) for at, _, every, _ in ends
        ],
        "success, %": [(at, float(success)) for at, _, _, success in ends],
    }
    return Markup("{}{}").format(
        lines(series, "Batch, interval and success of the controller over time"), legend(series)
    )


def legend(series: Series) -> Markup:
    """Which line is which."""
    out = [
        f'<span><svg aria-hidden="true" width="10" height="10"><rect width="10" height="10" rx="2"'
        f' class="{cls}"/></svg>{escape(name)}</span>'
        for cls, name in zip(FILLS, series, strict=False)
    ]
    return _markup(f'<p class="legend">{"".join(out)}</p>')


def stacked(
    rows: Sequence[tuple[str, Sequence[float]]],
    classes: Sequence[str],
    label: str,
    limit: float = 0,
    limit_text: str = "",
) -> Markup:
    """A bar for each day, in parts from the bottom up; a dashed line is what it may reach."""
    top = nice(max([limit, *(sum(parts) for _, parts in rows), 0.01]))
    width = (100 - LEFT) / max(1, len(rows))
    out = [_grid(0, top, ranks=False)]
    for place, (name, parts) in enumerate(rows):
        x, y = LEFT + place * width, TOP + HIGH
        for value, cls in zip(parts, classes, strict=True):
            tall = max(1.5, value / top * HIGH) if value > 0 else 0
            y -= tall
            tip = f"<title>{escape(name)}: {value:.3f}</title>"
            out.append(
                f'<rect x="{x + width * 0.15:.2f}%" y="{y:.1f}" width="{width * 0.7:.2f}%"'
                f' height="{tall:.1f}" class="f-{cls}">{tip}</rect>'
            )
        out.append(
            f'<text x="{x + width / 2:.2f}%" y="{HEIGHT - 6}" class="mid">{escape(name)}</text>'
        )
    if limit:
        y = TOP + HIGH - limit / top * HIGH
        out.append(
            f'<line x1="{LEFT}%" x2="100%" y1="{y:.1f}" y2="{y:.1f}" class="l-warn ln dash"/>'
        )
        out.append(f'<text x="100%" y="{y + 12:.1f}" class="end">{escape(limit_text)}</text>')
    named = f'role="img" aria-label="{escape(label)}"'
    return _markup(f'<svg class="chart" height="{HEIGHT}" {named}>{"".join(out)}</svg>')


def _scale(values: Sequence[float], *, ranks: bool) -> tuple[float, float]:
    if ranks:
        return 1.0, max(5.0, nice(max(values)))
    return 0.0, nice(max(*values, 1.0))


def _x(at: int, first: int, last: int) -> float:
    return 50.0 if last == first else 100 * (at - first) / (last - first)


def _y(value: float, low: float, high: float, *, ranks: bool) -> float:
    share = (value - low) / (high - low)
    return HIGH * (share if ranks else 1 - share)


def _grid(low: float, high: float, *, ranks: bool) -> str:
    out = []
    for value in (low, (low + high) / 2, high):
        y = TOP + _y(value, low, high, ranks=ranks)
        out.append(f'<line x1="{LEFT}%" x2="100%" y1="{y:.1f}" y2="{y:.1f}" class="g"/>')
        out.append(f'<text x="{LEFT - 0.8:g}%" y="{y + 4:.1f}" class="end">{short(value)}</text>')
    return "".join(out)


def short(value: float) -> str:
    """A number at an axis: 250 k, 1.5 M, 0.02."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            scale = 1e3 if unit == "k" else size
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"  # noqa: PLR2004 - ten and more have no decimals


def _dot(x: float, y: float, cls: str) -> str:
    at = LEFT + x * (100 - LEFT) / 100
    return f'<circle cx="{at:.2f}%" cy="{TOP + y:.1f}" r="3" class="{cls}"/>'


def _days(first: int, last: int) -> str:
    out = [_day(first, LEFT, "")]
    if last > first:
        out.append(_day(last, 100, "end"))
    return "".join(out)


def _day(ms: int, x: float, cls: str) -> str:
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return f'<text x="{x:g}%" y="{HEIGHT - 6}" class="{cls}">{at.day} {at:%b}</text>'


def _markup(text: str) -> Markup:
    return Markup(text)  # noqa: S704 - every word in it was escaped above
