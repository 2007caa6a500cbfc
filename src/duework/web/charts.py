"""Charts as SVG text, made on the server. Standard library only; every function is pure.

One rule makes them sharp at any width, free of inline styles and readable on a phone:

    x is a percentage, y is a pixel.

The outer <svg> has no viewBox: it is as wide as its place and has a fixed height, so rectangles (x and
width in %) stretch with the page while text keeps its size. Colours are classes (`f-done`, `l-run`): a
chart never names a colour. Text in a chart that may go on a phone carries the class `opt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

# Parts of the width: labels nearer than this to "now" would run into it, or do so on a phone.
_TOO_NEAR, _NEAR, _EDGE = 0.1, 0.26, 0.03
# In percent: a label further to the right would run out of its chart.
_LATE = 94.0
_TEN = 10

Span = tuple[float, float, str, str]
Mark = tuple[float, str, str]


def pct(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def px(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def title(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def rect(x: float, y: float, w: float, h: float, cls: str, tip: str = "", rx: float = 0) -> str:
    where = f'x="{pct(x)}" y="{px(y)}" width="{pct(w)}" height="{px(h)}"'
    corner = f' rx="{px(rx)}"' if rx else ""
    return f'<rect {where} class="{cls}"{corner}>{title(tip)}</rect>'


def text(x: float, y: float, words: str, cls: str = "") -> str:
    return f'<text x="{pct(x)}" y="{px(y)}" class="{cls}">{escape(words)}</text>'


def pattern_rect(x: float, y: float, w: float, h: float, pattern: str, tip: str) -> str:
    """A rectangle filled with a pattern of this page."""
    where = f'x="{pct(x)}" y="{px(y)}" width="{pct(w)}" height="{px(h)}"'
    return f'<rect {where} fill="url(#{pattern})">{title(tip)}</rect>'


def hline(y: float, cls: str = "g", x1: float = 0, x2: float = 100) -> str:
    return f'<line x1="{pct(x1)}" x2="{pct(x2)}" y1="{px(y)}" y2="{px(y)}" class="{cls}"/>'


def vline(x: float, y1: float, y2: float, cls: str) -> str:
    return f'<line x1="{pct(x)}" x2="{pct(x)}" y1="{px(y1)}" y2="{px(y2)}" class="{cls}"/>'


def chart(height: float, body: Iterable[str], label: str, cls: str = "") -> str:
    named = f'role="img" aria-label="{escape(label)}"'
    return f'<svg class="chart {cls}" height="{px(height)}" {named}>{"".join(body)}</svg>'


def swatch(cls: str) -> str:
    return f'<svg aria-hidden="true"><rect width="10" height="10" rx="2" class="{cls}"/></svg>'


def hatched(x: float, y: float, w: float, h: float, name: str) -> str:
    where = f'x="{pct(x)}" y="{px(y)}" width="{pct(w)}" height="{px(h)}"'
    return f'<rect {where} fill="url(#{name})"/>'


def diamond(x: float, y: float, tip: str) -> str:
    """A mark on a line of time; the title names it."""
    shape = '<path d="M0 0L4 4 0 8-4 4z" class="f-accent"/>'
    where = f'x="{pct(x)}" y="{px(y)}" width="10" height="10" overflow="visible"'
    return f"<svg {where}>{shape}{title(tip)}</svg>"


def paths(x: float, y: float, w: float, h: float, body: Iterable[str]) -> str:
    """A stretched box for lines and areas: 1000 units wide, `h` units high."""
    box = f'viewBox="0 0 1000 {px(h)}" preserveAspectRatio="none"'
    where = f'x="{pct(x)}" y="{px(y)}" width="{pct(w)}" height="{px(h)}"'
    return f"<svg {where} {box}>{''.join(body)}</svg>"


def area(values: Sequence[float], h: float, top: float, fill: str, stroke: str) -> str:
    step = 1000 / max(1, len(values) - 1)
    places = [f"{px(n * step)},{px(h - min(1.0, v / top) * h)}" for n, v in enumerate(values)]
    points = " ".join(places)
    filled = f'<polygon points="0,{px(h)} {points} 1000,{px(h)}" class="{fill}"/>'
    return f'{filled}<polyline points="{points}" class="ln {stroke}"/>'


def steps(values: Sequence[float], h: float, top: float, cls: str) -> str:
    """A step line: a controller's value holds until it is changed."""
    w = 1000 / len(values)
    out = []
    for place, value in enumerate(values):
        y = px(h - min(1.0, value / top) * h)
        start = "L" if place else "M"
        out.append(f"{start}{px(place * w)} {y}L{px((place + 1) * w)} {y}")
    return f'<path d="{"".join(out)}" class="ln {cls}"/>'


def hatch(name: str, cls: str = "hatch", size: int = 6) -> str:
    """A pattern for what is not to be had: a rest, a reserve. Its id must be the page's only one."""
    shape = f'<line x1="0" x2="0" y1="0" y2="{size}" class="{cls}"/>'
    how = f'width="{size}" height="{size}" patternUnits="userSpaceOnUse"'
    return (
        f'<defs><pattern id="{name}" {how} patternTransform="rotate(45)">{shape}</pattern></defs>'
    )


def nice(value: float) -> float:
    """The next round number: the top of a scale."""
    if value <= 0:
        return 1
    scale = 1.0
    while scale * 10 <= value:
        scale *= 10
    while scale > value:
        scale /= 10
    return next(scale * m for m in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if scale * m >= value)


def spark(values: Sequence[float], cls: str = "run", w: int = 72, h: int = 20) -> str:
    """A sparkline: decoration beside a number that says the same, so hidden from screen readers."""
    top, step = max(*values, 1), w / max(1, len(values) - 1)
    places = [f"{px(i * step)},{px(h - 1.5 - v / top * (h - 3))}" for i, v in enumerate(values)]
    points = " ".join(places)
    size = f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
    filled = f'<polygon points="0,{h} {points} {w},{h}" class="f-{cls}-bg"/>'
    line = f'<polyline points="{points}" class="ln l-{cls}"/>'
    return f'<svg class="spark" {size} aria-hidden="true">{filled}{line}</svg>'


def bar(parts: Sequence[tuple[str, float, str]], label: str, cls: str = "") -> str:
    """A progress bar in segments: (class, share, tip). What is not nothing is at least 0.6 % wide."""
    x, out = 0.0, []
    for kind, part, tip in parts:
        w = max(0.6, part * 100) if part > 0 else 0
        out.append(rect(x, 0, w, 12, f"f-{kind}", tip))
        x += w
    return f'<svg class="bar {cls}" role="img" aria-label="{escape(label)}">{"".join(out)}</svg>'


def gauge(used: float, limit: float, reserve: float, name: str, label: str) -> str:
    """A window of a quota: used, free, and the hatched reserve that is never taken."""
    limit = max(limit, 1)
    full, x = used >= limit - reserve, (limit - reserve) / limit * 100
    out = [hatch(f"res-{name}", "hatch2", 5), rect(0, 0, 100, 12, "f-track")]
    out.append(rect(0, 0, min(1.0, used / limit) * 100, 12, "f-warn" if full else "f-run"))
    if reserve:
        out.append(pattern_rect(x, 0, 100 - x, 12, f"res-{name}", f"reserve: {reserve:g}"))
    return f'<svg class="bar lg" role="img" aria-label="{escape(label)}">{"".join(out)}</svg>'


def _scale(top: float, base: float, high: float, x0: float) -> list[str]:
    out = []
    for part in (0.5, 1.0):
        y, value = base - part * high, top * part
        words = f"{value:,.0f}" if value >= _TEN or value == int(value) else f"{value:.1f}"
        out += [hline(y, "g", x0), text(x0 - 0.8, y + 4, words, "end")]
    return out


def stacked(
    rows: Sequence[Sequence[float]],
    classes: Sequence[str],
    labels: Sequence[str],
    label: str,
    tips: Sequence[str] = (),
    *,
    height: int = 118,
    limit: float = 0,
    limit_text: str = "",
) -> str:
    """Stacked bars: the parts of each from the bottom, and what stands below it."""
    x0, base, high = 6.0, height - 22.0, height - 34.0
    top = max(4, nice(max([limit, *(sum(row) for row in rows)])))
    w = (100 - x0) / max(1, len(rows))
    out, shown = _scale(top, base, high, x0), 0
    for place, parts in enumerate(rows):
        x, y = x0 + place * w, base
        for value, cls in zip(parts, classes, strict=True):
            if value > 0:
                h = max(1.5, value / top * high)
                out.append(rect(x + w * 0.15, y - h, w * 0.7, h, f"f-{cls}"))
                y -= h + 0.5
        out.append(rect(x, base - high, w, high, "hit", tips[place] if tips else ""))
        if labels[place]:
            side = "" if x < x0 + 3 else "end" if x > _LATE else "mid"
            out.append(text(x + w / 2, height - 6, labels[place], side + (" opt" * (shown % 2))))
            shown += 1
    out.append(hline(base, "base", x0))
    if limit:
        y = base - limit / top * high
        out += [hline(y, "l-warn ln dash", x0), text(100, y - 5, limit_text, "end")]
    return chart(height, out, label)


@dataclass(frozen=True, slots=True)
class Band:
    """One value of a controller over time: its name, values, the top of its scale and how it is drawn."""

    words: str
    values: Sequence[float]
    top: float
    unit: str
    cls: str
    marks: Sequence[float] = ()


def bands(
    shown: Sequence[Band],
    rests: Sequence[tuple[float, float]],
    labels: Sequence[str],
    label: str,
    name: str,
) -> str:
    """Values over one axis, below each other; a rest is a hatched column over all of them."""
    x0, h, gap, y = 7.0, 46.0, 20.0, 14.0
    out = [hatch(f"rest-{name}")]
    tall = len(shown) * (h + gap) - gap
    for start, end in rests:
        a, b = x0 + start * (100 - x0), x0 + end * (100 - x0)
        out.append(pattern_rect(a, 14, b - a, tall, f"rest-{name}", "a rest"))
    for band in shown:
        out += [text(x0, y - 4, band.words), hline(y, "g", x0), hline(y + h, "base", x0)]
        out.append(text(x0 - 0.8, y + 5, f"{band.top:,g}{band.unit}", "end"))
        out.append(text(x0 - 0.8, y + h + 3, "0", "end"))
        out += [hline(y + h - mark / band.top * h, "g", x0) for mark in band.marks]
        out.append(paths(x0, y, 100 - x0, h, [steps(band.values, h, band.top, band.cls)]))
        y += h + gap
    for place, words in enumerate(labels):
        at = x0 + place * (100 - x0) / max(1, len(labels) - 1)
        side = "" if place == 0 else "end" if place == len(labels) - 1 else "mid"
        out.append(text(at, y + 2, words, side + " opt" * (place % 2)))
    return chart(y + 8, out, label)


# --- grids of cells

_MARKS = {
    "done": '<rect width="9" height="9" rx="2" class="f-did"/>',
    "run": '<rect x=".5" y=".5" width="8" height="8" rx="2" class="f-none l-run" stroke-width="1"/>'
    '<rect y="4.5" width="9" height="4.5" rx="1" class="f-run"/>',
    "wait": '<rect x=".5" y=".5" width="8" height="8" rx="2" class="f-none l-wait" stroke-width="1"'
    ' opacity=".6"/>',
    "fail": '<path d="M1.3 1.3l6.4 6.4M7.7 1.3L1.3 7.7" class="f-none l-fail" stroke-width="2.4"/>',
    "gone": '<path d="M1.3 7.7L7.7 1.3" class="f-none l-wait" stroke-width="1.4"/>',
}


def members(states: Sequence[tuple[str, str]], label: str, rows: int = 12) -> str:
    """A cell for each member of a batch, in columns; its shape tells as well as its colour."""
    pitch, rows = 11, max(1, min(rows, len(states)))
    used = sorted({state for state, _ in states})
    out = ["<defs>", *(f'<g id="m-{each}">{_MARKS[each]}</g>' for each in used), "</defs>"]
    for place, (state, tip) in enumerate(states):
        where = f'x="{place // rows * pitch}" y="{place % rows * pitch}"'
        out.append(f'<use href="#m-{state}" {where}>{title(tip)}</use>')
    w, h = -(-len(states) // rows) * pitch, rows * pitch
    size = f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(out)}</svg>'


# --- time on a row: attempts, steps, fires


def track(
    spans: Sequence[Span], marks: Sequence[Mark] = (), now: float | None = None, label: str = ""
) -> str:
    """One row of a timeline: spans (from, to, class, tip) and marks (at, class, tip), all in 0..1."""
    out = [hline(11, "g")]
    for a, b, cls, tip in spans:
        out.append(rect(a * 100, 5, max(0.35, (b - a) * 100), 12, cls, tip, 2))
    for at, cls, tip in marks:
        diamond = f'<path d="M0-5L5 0 0 5-5 0z" class="{cls}"/>{title(tip)}'
        place = f'x="{pct(at * 100)}" y="11" width="1" height="1" overflow="visible"'
        out.append(f"<svg {place}>{diamond}</svg>")
    if now is not None:
        out.append(vline(now * 100, 0, 22, "now"))
    return chart(22, out, label)


def axis(labels: Sequence[tuple[float, str]], now: float | None = None) -> str:
    """The times above the rows of a timeline."""
    out = []
    for i, (at, words) in enumerate(labels):
        near = abs(at - now) if now is not None else 1.0
        if near < _TOO_NEAR:
            continue
        cls = "" if at < _EDGE else "end" if at > 1 - _EDGE else "mid"
        out.append(text(at * 100, 15, words, cls + (" opt" if i % 2 or near < _NEAR else "")))
    if now is not None:
        out.append(text(now * 100, 15, "now", "nowt end" if now > 1 - _TOO_NEAR else "nowt mid"))
    return f'<svg class="chart" height="22" aria-hidden="true">{"".join(out)}</svg>'
