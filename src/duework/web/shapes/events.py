"""Events: what was published, who gets it, what became of it; redrive what failed."""

from __future__ import annotations

from starlette.responses import Response

from duework.codec import encode
from duework.db.database import Tx
from duework.errors import NotFound
from duework.shapes.shape import CHUNK
from duework.web.acts import acted
from duework.web.lists import PAGE, address, before, path_id, required, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import Visit


def events(visit: Visit) -> Response:
    """Newest first, of one name or all, and who gets them."""
    name, book = text(visit, "name"), visit.app.events
    found = book.search(name, before=before(visit), limit=PAGE + 1)
    shown = found[:PAGE]
    readers = [each for each in book.subscribers(limit=PAGE) if name in ("", each.event)]
    # Among the newest that failed: one look for all subscribers.
    broken = {job.task for job in visit.app.jobs(phase="failed", limit=CHUNK)}

    def here(**more: str | int) -> str:
        return address(visit.base, "/events", **{"name": name, **more})

    return show(
        *(visit, "events.html"),
        rows=shown,
        subscribers=[(each, each.name in broken) for each in readers],
        filters=[("name", "Name", name)],
        chosen=[("name", name, here(name=""))] if name else [],
        newest=here() if visit.asked("before") else "",
        older=here(before=shown[-1].id) if len(found) > PAGE else "",
    )


def event(visit: Visit) -> Response:
    """One event: its payload, and what became of it at each subscriber."""
    found = visit.app.events.get(path_id(visit, "event"))
    return show(
        *(visit, "event.html"),
        heading=found.name,
        event=found,
        payload=encode(found.payload),
        reached=visit.app.events.reached(found.id),
    )


def redrive(visit: Visit) -> Response:
    """Run failed events of a subscriber again, a chunk of them."""
    name, engine = required(visit, "subscriber"), visit.app.wiring.engine
    jobs = [each.job for each in visit.app.events.failed(name, limit=CHUNK)]

    def act(tx: Tx) -> str:
        if not jobs:
            raise NotFound(f"{name} has no failed events")
        return str(len(engine.revive(tx, sorted(jobs))))

    return acted(visit, "redrive", f"subscriber {name}", act, "{} run again")


LIVE = regions("events", events=1.0, subscribers=1.0)
ONE = regions("events", head=1.0, detail=1.0)
PAGES = [
    OwnPage("/events", events, live=LIVE, nav=NavItem("Events", "events", "Work", key="e")),
    OwnPage("/events/{id:int}", event, live=ONE),
    OwnPage("/events/redrive", redrive, "operate", "POST"),
]
