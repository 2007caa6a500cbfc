"""The doctor: what wants a look before the next deploy, then what is fine."""

from __future__ import annotations

from starlette.responses import Response

from duework.health.checkup import Check, checkup
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import LATER, Visit

# How a check looks: the kind of its line, and its glyph.
LOOKS = {"problem": ("bad", "failed"), "warning": ("warn", "late"), "ok": ("ok", "done")}


def doctor(visit: Visit) -> Response:
    """All checks that there are, those that are not well first."""
    found = _checks(visit)
    order = list(LOOKS)
    found.sort(key=lambda each: order.index(each.fitness))
    visit.again = LATER
    return visit.render(
        *(visit, "doctor.html"),
        live=visit.live(),
        checks=[(each, *LOOKS[each.fitness]) for each in found],
        bad=sum(each.fitness == "problem" for each in found),
        wanting=sum(each.fitness != "ok" for each in found),
    )


def _checks(visit: Visit) -> list[Check]:
    """Those of `duework doctor`, or where there is none, whether the database is fit for work."""
    app = visit.app
    found: list[Check] | None = getattr(app.admin, "doctor", lambda: None)()
    if found is not None:
        return found
    database = app.wiring.engine.database
    return checkup(database, app.wiring.schema_steps(database.kind), app.now())


PAGES = [
    OwnPage(
        *("/doctor", doctor),
        live=regions(checks=60.0),
        nav=NavItem("Doctor", "doctor", "Machine", place=20),
    ),
]
