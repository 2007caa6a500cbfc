"""The page at /countdowns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import verbs

if TYPE_CHECKING:
    from starlette.responses import Response

    from duework.web.visits import Visit


def show(visit: Visit) -> Response:
    """All countdowns by name."""
    with visit.app.wiring.engine.database.reading() as tx:
        return visit.render(visit, "countdowns/list.html", rows=verbs.listed(tx))


# Path below /countdowns, what answers, the scope that it needs, how it is asked.
TABLE = (("", show, "read", "GET"),)
