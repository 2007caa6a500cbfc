"""The page at /blobs: which there are, how large they are, and when they are over."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from duework.web.table import NavItem, OwnPage
from duework.web.visits import Visit

PAGE = 50


def blobs(visit: Visit) -> Response:
    """By key, a page at a time."""
    query = visit.request.query_params
    prefix, after = query.get("prefix", ""), query.get("after", "")
    found = visit.app.blobs.list(prefix, after=after, limit=PAGE + 1)
    shown = found[:PAGE]
    more = urlencode({"prefix": prefix, "after": shown[-1].key}) if len(found) > PAGE else ""
    return visit.render(visit, "blobs.html", rows=shown, prefix=prefix, more=more)


PAGES = [OwnPage("/blobs", blobs, nav=NavItem("Blobs", "objects", "State", place=60))]
