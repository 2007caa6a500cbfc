"""Pages: the five stages with ranked opportunities, one opportunity with its debate, one app."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec
from markupsafe import Markup

from duework import Template
from systems.scout import first, reading
from systems.scout.opportunity import WEIGHTS
from systems.scout.part import part

PARTS = ("demand", "competition", "fragmentation", "design")


class Sorted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How opportunities are sorted."""

    newest: bool = False


def bar(value: float, label: str) -> Markup:
    """A score from 0 to 100."""
    width = f"{max(0.0, min(100.0, value)):g}"
    inside = f'<rect x="0" y="0" width="{width}%" height="12" class="f-run"/>'
    return Markup(f'<svg class="bar" role="img" aria-label="{escape(label)}">{inside}</svg>')  # noqa: S704 - escaped


@part.page("/", title="Scout", icon="scout", live=("jobs", "chains"))
def front(query: Sorted) -> Template:
    now = part.app.now()
    running = part.app.chains(task="scout.pipeline", state="active", limit=1)
    return Template(
        "scout.html",
        stages=reading.stages(now),
        found=reading.opportunities(newest=query.newest),
        newest=query.newest,
        paused=reading.paused(),
        pace=reading.controller(),
        busy=running[0] if running else None,
        parts=PARTS,
        bar=bar,
    )


@part.page("/opportunities/{cluster}", live=("chains",))
def opportunity(cluster: str) -> Template:
    found = reading.opportunity(cluster)
    ids = sorted({id_ for each in found["facts"] for id_ in each["apps"]})
    return Template(
        "opportunity.html",
        it=found,
        names=reading.names_of(ids),
        parts=PARTS,
        weights=WEIGHTS,
        bar=bar,
    )


@part.page("/apps/{track_id}")
def one_app(track_id: int) -> Template:
    given: dict[str, Any] = reading.one_app(track_id)
    return Template("app.html", **given)


@part.action("/first")
def start_first() -> str:
    chain = first.start()
    return "It is under way already" if chain.existed else "It has begun: one chart, then the rest"


@part.action("/pause")
def pause() -> str:
    part.app.get_schedule("scout.crawl").pause()
    part.app.get_pace("enrich").stop()
    return "Crawl and enrichment stand still"


@part.action("/resume")
def resume() -> str:
    part.app.get_schedule("scout.crawl").resume()
    part.app.get_pace("enrich").start()
    return "Crawl and enrichment go on"


@part.action("/reset", confirm="Let the controller forget what it has learned?")
def reset() -> str:
    part.app.get_pace("enrich").reset()
    return "The controller starts anew"
