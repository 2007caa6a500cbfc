"""The audit: who did what, on what, why, and what became of it; newest first."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from duework.web.lists import PAGE, address, before, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.tokens import WEB
from duework.web.visits import Visit

# Lines that are looked at for one page.
WALKED = 1000
DELETING = ("purge", "delete")


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One action of somebody."""

    id: int
    at: int
    who: str
    what: str
    target: str
    why: str
    outcome: str


def audit(visit: Visit) -> Response:
    """A page of it: as far back as was looked, for a filter."""
    who, what = text(visit, "who"), text(visit, "what")
    with visit.app.wiring.engine.database.reading() as tx:
        rows = tx.query(WEB.audit_page, {"before": before(visit), "wanted": WALKED})
    seen = [AuditLine(*row) for row in rows]
    found = [each for each in seen if who in {"", each.who} and what in {"", each.what}]
    shown = found[:PAGE]
    # Where it goes on: behind the last that is shown, or behind all that was looked at.
    last = shown[-1].id if len(found) > PAGE else seen[-1].id if len(seen) == WALKED else None

    def here(**more: str | int) -> str:
        return address(visit.base, "/audit", **{"who": who, "what": what, **more})

    tokens = [(name, value) for name, value in (("who", who), ("what", what)) if value]
    return show(
        *(visit, "audit.html"),
        rows=shown,
        people=len({each.who for each in shown}),
        deleted=sum(each.what.startswith(DELETING) for each in shown),
        back_to=seen[-1].at if len(seen) == WALKED else None,
        filters=[("who", "Who", who), ("what", "What", what)],
        chosen=[(name, value, here(**{name: ""})) for name, value in tokens],
        newest=here() if visit.asked("before") else "",
        older=here(before=last) if last is not None else "",
    )


PAGES = [
    OwnPage(
        *("/audit", audit),
        live=regions("audit", audit=1.0),
        nav=NavItem("Audit", "audit", "Machine", place=30),
    ),
]
