"""From a visit and some values to a page: templates, static files, and the words that all pages use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from duework.clock import FOREVER
from duework.errors import DatabaseError
from duework.health.words import moment, on_the_clock
from duework.observe.words import tally
from duework.web import charts, filters
from duework.web.json_text import folded
from duework.web.lists import address
from duework.web.shapes.table import shape_links, with_templates
from duework.web.table import NavGroup, asking, found_pages, navigation

if TYPE_CHECKING:
    from duework.app import App
    from duework.health.needs import Need
    from duework.part import Part
    from duework.web.visitor import Visitor
    from duework.web.visits import Visit

# What stands at the bottom of a phone, beside the menu.
TABS = ("/", "/jobs", "/schedules", "/workers")
_HASH = re.compile(r"\.[0-9a-f]{12}\.")
KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@lru_cache(maxsize=1)
def static_files() -> dict[str, tuple[bytes, str]]:
    """Files by the name under which they are served, which changes with what is in them."""
    found = {}
    folder = resources.files("duework.web") / "static"
    for entry in [*folder.iterdir(), *(folder / "vendor").iterdir()]:
        stem, _, ending = entry.name.rpartition(".")
        if ending in KINDS:
            body = entry.read_bytes()
            served = f"{stem}.{hashlib.sha256(body).hexdigest()[:12]}.{ending}"
            found[served] = (body, KINDS[ending])
    return found


@lru_cache(maxsize=1)
def served_names() -> dict[str, str]:
    return {_HASH.sub(".", name): name for name in static_files()}


@lru_cache(maxsize=1)
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("duework.web"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters["truncate"] = shortened
    made.globals.update(
        n=filters.n,
        counted=filters.counted,
        dur=filters.dur,
        size=filters.size,
        many=many,
        first_line=first_line,
        tally=tally,
        rest_of=lambda text: text[len(first_line(text)) :],
        json_folded=folded,
        rate=filters.rate,
        share=filters.share,
        **{name: drawn(name) for name in DRAWN},
    )
    return made


# Charts that templates draw by themselves.
DRAWN = ("swatch", "bar", "spark", "track", "axis", "stacked", "gauge", "members")


def drawn(name: str) -> Callable[..., Markup]:
    """A chart for templates; charts escape their texts."""
    chart = getattr(charts, name)
    return lambda *args, **more: Markup(chart(*args, **more))  # noqa: S704 - see above


def shortened(text: str, most: int = 255, _within_words: object = None, end: str = "…") -> str:
    """What is too long ends with an ellipsis, in the middle of a word if need be."""
    return text if len(text) <= most else text[: most - len(end)].rstrip() + end


def many(count: int, one: str, more: str) -> str:
    return f"{filters.counted(count)} {one if count == 1 else more}"


def first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def time_tag(ms: int | None, visit: Visit | Visitor, now: int) -> Markup:
    """A time that people and machines read; the words of a near one go on by themselves."""
    words = filters.when(ms, now, visit.zone)
    if ms is None or ms >= FOREVER:
        return Markup('<span class="muted">{}</span>').format(words)
    near = " ago" in words or words.startswith(("in ", "now"))
    tag = '<time datetime="{}" data-rel title="{}">{}</time>' if near else _PLAIN
    return Markup(tag).format(filters.iso(ms), filters.exact(ms, visit.zone), words)  # noqa: S704


def clock_tag(ms: int | None, visit: Visit | Visitor, now: int) -> Markup:
    """A time that something ends at, on the clock: 14:30, Wed 14:30, 3 Nov."""
    if ms is None or ms >= FOREVER:
        return Markup("<span>{}</span>").format("somebody says so")
    words = filters.at_clock(ms, now, visit.zone)
    return Markup(_PLAIN).format(filters.iso(ms), filters.exact(ms, visit.zone), words)  # noqa: S704


def told(words: str, until: int | None, visit: Visit | Visitor, now: int) -> Markup:
    """A reason with the words for its end put as a time that ticks, or as the reader's clock has it."""
    if until is not None:
        for said, tag in ((moment, time_tag), (on_the_clock, clock_tag)):
            before, found, behind = words.partition(said(until, now))
            if found:
                return Markup("{}{}{}").format(before, tag(until, visit, now), behind)
    return Markup("{}").format(words)


_PLAIN = '<time datetime="{}" title="{}">{}</time>'


def renderer(app: App) -> Callable[..., Response]:
    """What pages are made with: `render(visit, "jobs.html", jobs=…)`."""
    ours = environment()
    assert ours.loader is not None
    known = ours.overlay(loader=with_templates(app, ours.loader))

    def render(visit: Visit, template: str, *, status: int = 200, **values: Any) -> Response:
        made = known.get_template(template)
        return HTMLResponse(made.render(**{**page_values(app, visit, status), **values}), status)

    return render


def page_values(app: App, visit: Visit | Visitor, status: int = 200) -> dict[str, Any]:
    """What every template knows, whoever looks."""
    now, base, who = app.now(), visit.base, visit.who
    served, nav = served_names(), navigation(found_pages())
    systems_of_all = [*of_shapes(app), *systems(app.parts, visit.here)]

    def jobs_url(**wanted: str) -> str:
        return address(base, "/jobs", **wanted)

    return {
        "status": status,
        # Whether the page is a part's, whose content is one region.
        "part_page": False,
        # Where its changes come from; empty for a page that does not change by itself.
        "live": "",
        "base": base,
        "here": visit.here,
        "active": _active(visit.here, nav, systems_of_all),
        "nav": nav,
        "tab_paths": TABS,
        "systems": systems_of_all,
        "now_iso": filters.iso(now),
        "clock_text": _clock_text(now, visit),
        "theme": visit.theme,
        "utc": visit.utc,
        "keys_off": visit.keys_off,
        "said": visit.said,
        "undo": visit.undo,
        "who": who,
        "signed_in": who is not None,
        "form_key": visit.form_key,
        "sign_in": visit.sign_in,
        "person": visit.person,
        "can": lambda scope: who is not None and who.may(scope),
        "database": "PostgreSQL" if app.url.startswith("postgres") else "SQLite",
        "static": lambda name: f"{base}/static/{served[name]}",
        "jobs_url": jobs_url,
        "url": lambda path, **query: address(base, path, **query),
        "t": lambda ms: time_tag(ms, visit, now),
        "at": lambda ms: clock_tag(ms, visit, now),
        "told": lambda words, until: told(words, until, visit, now),
        "clock": lambda ms: filters.clock(ms, visit.zone)[:5],
        "now": now,
        "sees_payloads": sees_payloads(app, visit),
        "needing": lambda: _needing(app, visit),
        "asking": asking,
    }


def sees_payloads(app: App, visit: Visit | Visitor) -> bool:
    """Whether they may see what jobs were given and gave back: the App says from which scope on."""
    return visit.who is not None and visit.who.may(app.payloads)


def _needing(app: App, visit: Visit | Visitor) -> list[Need]:
    """What needs somebody, for the side bar; nothing on a page that says why nothing can be read."""
    if visit.who is None:
        return []
    try:
        return app.needs()
    except DatabaseError:
        return []


def of_shapes(app: App) -> list[dict[str, Any]]:
    """What the side bar lists of shapes that have pages."""
    return [
        {
            "url": url,
            "title": name.capitalize(),
            "icon": name if name in icons() else "objects",
            "pages": [],
        }
        for name, url in shape_links(app)
    ]


def systems(parts: Sequence[Part], here: str) -> list[dict[str, Any]]:
    """What the side bar lists of parts: those with a page at "/", and below the open one its others."""
    found = []
    for part in parts:
        pages = {
            page.endpoint.path: page for page in part.contents.face.pages if page.auth == "token"
        }
        if "/" not in pages or not pages["/"].nav:
            continue
        first, root = pages["/"], f"/{part.name}/"
        is_open = here.partition("?")[0].startswith(root)
        more = [
            (f"/{part.name}{path}", page.title, page.icon)
            for path, page in pages.items()
            if is_open and page.nav and path != "/" and not page.endpoint.parameters
        ]
        icon = first.icon or (part.name if part.name in icons() else "objects")
        found.append({"url": root, "title": first.title, "icon": icon, "pages": more})
    return found


@lru_cache(maxsize=1)
def icons() -> frozenset[str]:
    """The names of the pictures that there are."""
    text = (resources.files("duework.web") / "static" / "icons.svg").read_text()
    return frozenset(re.findall(r'symbol id="([\w-]+)"', text))


def _active(here: str, nav: Iterable[NavGroup], theirs: Iterable[dict[str, Any]]) -> str:
    """The line of the side bar: `/jobs` for a job, of a part the page itself or the line above it."""
    path = here.partition("?")[0]
    first = "/" + path[1:].partition("/")[0]
    listed = [line for group in nav for line, _ in group.items]
    if first in listed:
        return first
    for each in theirs:
        if path.startswith(each["url"]):
            return path if path in {page[0] for page in each["pages"]} else str(each["url"])
    return next((line for line in listed if line.startswith(f"{first}/")), path)


def _clock_text(now: int, visit: Visit | Visitor) -> str:
    return f"{filters.clock(now, visit.zone)} {filters.zone_name(now, visit.zone)}"
