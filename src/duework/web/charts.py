"""Charts as SVG text, made on the server. Standard library only; every function is pure.

One rule makes them sharp at any width, free of inline styles and readable on a phone:

    x is a percentage, y is a pixel.

The outer <svg> has no viewBox: it is as wide as its place and has a fixed height, so rectangles (x and
width in %) stretch with the page while text keeps its size. Colours are classes (`f-done`, `l-run`): a
chart never names a colour. Text in a chart that may go on a phone carries the class `opt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# Parts of the width: labels nearer than this to "now" would run into it, or do so on a phone.
_TOO_NEAR, _NEAR, _EDGE = 0.1, 0.24, 0.03

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


def hline(y: float, cls: str = "g", x1: float = 0, x2: float = 100) -> str:
    return f'<line x1="{pct(x1)}" x2="{pct(x2)}" y1="{px(y)}" y2="{px(y)}" class="{cls}"/>'


def vline(x: float, y1: float, y2: float, cls: str) -> str:
    return f'<line x1="{pct(x)}" x2="{pct(x)}" y1="{px(y1)}" y2="{px(y2)}" class="{cls}"/>'


def chart(height: float, body: Iterable[str], label: str, cls: str = "") -> str:
    named = f'role="img" aria-label="{escape(label)}"'
    return f'<svg class="chart {cls}" height="{px(height)}" {named}>{"".join(body)}</svg>'


def swatch(cls: str) -> str:
    return f'<svg aria-hidden="true"><rect width="10" height="10" rx="2" class="{cls}"/></svg>'


def hatch(name: str, size: int = 6) -> str:
    """A pattern for what is not known exactly; its id must be unique on the page."""
    box = f'width="{size}" height="{size}" patternUnits="userSpaceOnUse"'
    line = f'<line x1="0" x2="0" y1="0" y2="{size}" class="hatch2"/>'
    return f'<defs><pattern id="{name}" {box} patternTransform="rotate(45)">{line}</pattern></defs>'


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
