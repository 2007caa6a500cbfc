"""Does it matter how many other rows lie in the table?"""

from __future__ import annotations

from bench import fill
from bench.bed import Bed
from bench.figures import Figure, at_least
from bench.scenarios.drain import drain
from bench.scenarios.idle import later

QUESTION = "Is a drain slower with 1 M (or 10 M) other rows in the table than with 10 k?"


def _figures(kind: str, words: str) -> tuple[Figure, ...]:
    base = f"beside_{kind}_10k"
    bars = (at_least(0.8, of=base),)
    return (
        Figure(base, f"drain beside 10 k {words} rows", "/s"),
        Figure(f"beside_{kind}_1m", f"drain beside 1 M {words} rows", "/s", bars),
        Figure(f"beside_{kind}_10m", f"drain beside 10 M {words} rows", "/s", bars),
    )


FIGURES = (*_figures("later", "later-due"), *_figures("done", "finished"))


def sample(bed: Bed) -> dict[str, float]:
    sizes = {"10k": 10_000, "1m": bed.scaled(1_000_000, 100_000)}
    if bed.huge:
        sizes["10m"] = 10_000_000
    jobs = bed.scaled(20_000, 3000)
    told: dict[str, float] = {}
    for kind in ("later", "done"):
        for size, rows in sizes.items():
            url = bed.once(f"{size}_{kind}", lambda k=kind, r=rows: _filled(bed, r, k))
            fill.ready(bed, url, jobs)
            told[f"beside_{kind}_{size}"] = drain(bed, url, jobs)
    return told


def _filled(bed: Bed, rows: int, kind: fill.Lying) -> str:
    url = bed.sqlite()
    if kind == "later":
        return later(bed, url, rows)
    fill.lying(bed, url, rows, kind)
    return url
