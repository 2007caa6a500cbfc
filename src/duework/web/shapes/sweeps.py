"""Sweeps: how each goes, what is put off; start, stop, reset."""

from __future__ import annotations

from starlette.responses import Response

from duework.db.database import Tx
from duework.shapes.sweeps import verbs
from duework.web.acts import acted, ask, sure
from duework.web.lists import PAGE, address, required, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import SOON, Visit

GLYPHS = {"stopped": "paused"}


def sweeps(visit: Visit) -> Response:
    """By name."""
    after = text(visit, "after")
    found = visit.app.sweeps.search(after=after, limit=PAGE + 1)
    shown = found[:PAGE]
    visit.again = SOON if any(each.running for each in shown) else None
    return show(
        *(visit, "sweeps.html"),
        rows=shown,
        glyphs=GLYPHS,
        bad=[each for each in shown if each.error],
        going=[each for each in shown if each.running],
        order="By name",
        newest=address(visit.base, "/sweeps") if after else "",
        older=address(visit.base, "/sweeps", after=shown[-1].name) if len(found) > PAGE else "",
    )


def sweep(visit: Visit) -> Response:
    """One sweep: its counts, its pace, and the items that are put off."""
    found = visit.app.sweeps.get(required(visit, "name"))
    visit.again = SOON if found.running else None
    return show(
        *(visit, "sweep.html"),
        heading=found.name,
        sweep=found,
        glyphs=GLYPHS,
        items=visit.app.sweeps.failing(found.name, PAGE),
        pace=sorted((found.pace or {}).items()),
    )


# --- acting


def start(visit: Visit) -> Response:
    """Let it run, and look at once."""
    name, engine = required(visit, "name"), visit.app.wiring.engine

    def act(tx: Tx) -> str:
        verbs.start(tx, name, engine)
        return "running"

    return acted(visit, "start", f"sweep {name}", act, "It is {}")


def stop(visit: Visit) -> Response:
    """Begin no more groups."""
    name = required(visit, "name")

    def act(tx: Tx) -> str:
        verbs.stop(tx, name)
        return "stopped"

    return acted(visit, "stop", f"sweep {name}", act, "It is {}; a group that runs is completed")


def reset(visit: Visit) -> Response:
    """Forget what is put off, and count anew, after asking."""
    found = visit.app.sweeps.get(required(visit, "name"))
    if not sure(visit):
        return ask(
            *(visit, f"Reset sweep {found.name}?"),
            "It counts anew, and tries again what is put off.",
            effects=[("retry", f"{found.waiting:,} items that are put off are tried again")],
            fields=[("name", found.name)],
            crumb=(address("", "/sweeps/one", name=found.name), found.name),
            keep="Leave it as it is",
            button="Reset the sweep",
        )

    def act(tx: Tx) -> str:
        verbs.reset(tx, found.name)
        return "reset"

    return acted(visit, "reset", f"sweep {found.name}", act, "It counts anew")


LIVE = regions("sweeps", sweeps=1.0)
ONE = regions("sweeps", head=1.0, detail=1.0)
PAGES = [
    OwnPage("/sweeps", sweeps, live=LIVE, nav=NavItem("Sweeps", "search", "Work")),
    OwnPage("/sweeps/one", sweep, live=ONE),
    OwnPage("/sweeps/start", start, "operate", "POST"),
    OwnPage("/sweeps/stop", stop, "operate", "POST"),
    OwnPage("/sweeps/reset", reset, "operate", "POST"),
]
