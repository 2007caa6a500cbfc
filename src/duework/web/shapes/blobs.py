"""The page at /blobs: which there are, how large they are, and when they are over; delete one."""

from __future__ import annotations

from starlette.responses import Response

from duework.db.database import Tx
from duework.errors import NotFound
from duework.shapes.blobs import verbs
from duework.shapes.blobs.handle import MOST_KEY
from duework.web.acts import acted, ask, sure
from duework.web.lists import PAGE, address, required, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import Visit


def blobs(visit: Visit) -> Response:
    """By key, a page at a time."""
    prefix, after = text(visit, "prefix"), text(visit, "after", MOST_KEY)
    found = visit.app.blobs.list(prefix, after=after, limit=PAGE + 1)
    shown = found[:PAGE]

    def here(**more: str) -> str:
        return address(visit.base, "/blobs", **{"prefix": prefix, **more})

    return show(
        *(visit, "blobs.html"),
        rows=shown,
        bytes=sum(each.size for each in shown),
        filters=[("prefix", "Keys that begin with", prefix)] if shown or prefix else [],
        chosen=[("prefix", prefix, here(prefix=""))] if prefix else [],
        order="By key",
        newest=here() if after else "",
        older=here(after=shown[-1].key) if len(found) > PAGE else "",
    )


def delete(visit: Visit) -> Response:
    """Take one away, after typing it."""
    found, engine = visit.app.blobs.info(required(visit, "key", MOST_KEY)), visit.app.wiring.engine
    typed = f"delete {found.key[-20:]}"
    if not sure(visit) or (visit.sent("typed") != typed and not visit.by_program):
        return ask(
            *(visit, f"Delete blob {found.key[:60]}?", "Its content is gone for good."),
            effects=[("failed", f"{found.size:,} bytes are deleted")],
            fields=[("key", found.key)],
            crumb=("/blobs", "Blobs"),
            keep="Keep it",
            button="Delete the blob",
            typed=typed,
            wrong=f"That is not “{typed}”." if visit.sent("sure") == "yes" else "",
        )

    def act(tx: Tx) -> str:
        if not verbs.delete(tx, [(found.key, engine.clock.now())])[0]:
            raise NotFound(f"there is no blob {found.key[:60]}")
        return "deleted"

    return acted(visit, "delete", f"blob {found.key[:200]}", act, "The blob is {}")


LIVE = regions("blobs", blobs=2.0)
PAGES = [
    OwnPage("/blobs", blobs, live=LIVE, nav=NavItem("Blobs", "download", "State", place=60)),
    OwnPage("/blobs/delete", delete, "admin", "POST"),
]
