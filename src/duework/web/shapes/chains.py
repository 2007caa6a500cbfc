"""Chains: a sync in pages; how far it is, page by page; cancel, resume, retry the page that failed."""

from __future__ import annotations

from typing import Any, get_args

from starlette.responses import Response

from duework.codec import encode
from duework.db.database import Tx
from duework.kernel.error_text import redact
from duework.shapes.chains.handle import Chain, ChainPage, ChainState
from duework.shapes.chains.tasks import ChainVerbs
from duework.web.acts import acted, ask, sure
from duework.web.lists import PAGE, address, before, number, one_of, path_id, show, text
from duework.web.regions import regions
from duework.web.rendering import first_line, shortened
from duework.web.table import NavItem, OwnPage
from duework.web.visits import SOON, Visit

STATES: tuple[str, ...] = get_args(ChainState)
GLYPHS = {"active": "running"}


def chains(visit: Visit) -> Response:
    """Newest first, by state, task and key."""
    state: Any = one_of(visit, "state", STATES)
    task, key = text(visit, "task"), text(visit, "key")
    found = visit.app.chains(
        state=state or None, task=task, key=key, before=before(visit), limit=PAGE + 1
    )
    shown = found[:PAGE]
    active = [each for each in shown if each.state == "active"]
    visit.again = SOON if active else None

    def here(**more: str | int) -> str:
        return address(visit.base, "/chains", **{"state": state, "task": task, "key": key, **more})

    tokens = [(name, value) for name, value in (("task", task), ("key", key)) if value]
    return show(
        *(visit, "chains.html"),
        rows=shown,
        going=len(active),
        bad=[each for each in shown if each.state == "failed"],
        glyphs=GLYPHS,
        counts=_counts,
        states=[("All", here(state=""), not state)]
        + [(each.capitalize(), here(state=each), each == state) for each in STATES],
        filters=[("key", "Exact key", key)],
        kept=[(name, value) for name, value in (("state", state), ("task", task)) if value],
        chosen=[(name, value, here(**{name: ""})) for name, value in tokens],
        newest=here() if visit.asked("before") else "",
        older=here(before=shown[-1].id) if len(found) > PAGE else "",
    )


def _counts(each: Chain | ChainPage) -> str:
    """By name, since nobody knows the plural of somebody else's word."""
    return ", ".join(f"{name} {value:,}" for name, value in each.counts.items())


def chain(visit: Visit) -> Response:
    """One chain: its pages, newest first, on one axis of time."""
    found = visit.app.get_chain(path_id(visit, "chain"))
    newest = number(visit, "page", found.number)
    pages = found.pages(after=max(0, newest - PAGE), limit=PAGE)
    now = visit.app.now()
    visit.again = SOON if found.state == "active" else None
    names = list(dict.fromkeys(name for page in pages for name in page.counts))[:4]
    why = None
    if found.state == "active" and pages and pages[-1].phase in {"waiting", "ready"}:
        why = visit.app.why(pages[-1].job)
    first = min([found.started, *(page.created for page in pages)])
    last = max([found.settled or now, *(why.until for why in [why] if why and why.until)])

    def place(ms: int) -> float:
        return min(1.0, max(0.0, (ms - first) / max(1, last - first)))

    return show(
        *(visit, "chain.html"),
        heading=found.key or f"Chain {found.id}",
        chain=found,
        pages=pages[::-1],
        names=names,
        count_heads=[(name.capitalize(), "num") for name in names],
        quotas=any(page.quota for page in pages),
        why=why,
        error=first_line(found.error),
        place=place,
        now_at=place(now) if found.state == "active" else None,
        about=_about_end(found, now),
        cursor=lambda value: "–" if value is None else shortened(encode(value), 60),  # noqa: RUF001 - an en dash
        older=address(visit.base, f"/chains/{found.id}", page=pages[0].number - 1)
        if pages and pages[0].number > 1
        else "",
        newest=address(visit.base, f"/chains/{found.id}") if visit.asked("page") else "",
    )


def _about_end(found: Chain, now: int) -> int | None:
    """When it ends if it goes on as it did so far; None if nobody said where the end is."""
    percent = found.percent
    if found.state != "active" or not percent:
        return None
    return now + round((now - found.started) * (100 - percent) / percent)


# --- acting


def cancel(visit: Visit) -> Response:
    """End it between two pages, after asking."""
    found = visit.app.get_chain(number(visit, "id"))
    if not sure(visit):
        return ask(
            *(visit, f"Cancel chain {found.key or found.id} after this page?"),
            "It can be resumed later, after the last page that was completed.",
            effects=[
                ("running", "A page that runs goes on to its end"),
                ("done", f"{found.completed:,} completed pages stay as they are"),
            ],
            fields=[("id", found.id)],
            crumb=(f"/chains/{found.id}", found.key or "Chain"),
            keep="Let it go on",
            button="Cancel the chain",
        )
    why = redact(visit.sent("why")) or "cancelled by hand"
    book = visit.app.wiring.find(ChainVerbs).chains
    return acted(
        *(visit, "cancel", f"chain {found.id}"),
        lambda tx: book.cancel_all(tx, [(found.id, why)])[0],
        "It is {}",
    )


def _again(visit: Visit, what: str, *, failed: bool) -> Response:
    identifier, book = number(visit, "id"), visit.app.wiring.find(ChainVerbs).chains

    def act(tx: Tx) -> str:
        book.resume_all(tx, [(identifier, failed)])
        return "active"

    return acted(
        visit, what, f"chain {identifier}", act, "It goes on after its last completed page"
    )


def resume(visit: Visit) -> Response:
    """Go on after the last completed page."""
    return _again(visit, "resume", failed=False)


def retry(visit: Visit) -> Response:
    """Run the page again that failed."""
    return _again(visit, "retry", failed=True)


LIVE = regions("chains", chains=1.0)
ONE = regions("chains", head=1.0, detail=0.5)
PAGES = [
    OwnPage("/chains", chains, live=LIVE, nav=NavItem("Chains", "chains", "Work", key="c")),
    OwnPage("/chains/{id:int}", chain, live=ONE),
    OwnPage("/chains/cancel", cancel, "operate", "POST"),
    OwnPage("/chains/resume", resume, "operate", "POST"),
    OwnPage("/chains/retry", retry, "operate", "POST"),
]
