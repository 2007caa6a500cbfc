"""Durable objects by HTTP: which there are, how large they are, and when their alarms ring."""

from __future__ import annotations

from duework.shapes.objects.proxy import ObjectInfo
from duework.web.api.operation import Ask, line_of, page_of, place_of, reads
from duework.web.api.shape_types import ObjectLine, ObjectQuery
from duework.web.api.types import Listed


def objects(ask: Ask) -> Listed[ObjectLine]:
    """The objects of a kind, by key."""
    wanted: ObjectQuery = ask.query
    after = place_of(wanted.cursor, str, "")
    found = ask.app.objects(wanted.kind, prefix=wanted.prefix, after=after, limit=wanted.limit)
    return page_of(found, wanted.limit, _line, lambda each: each.key)


def one(ask: Ask) -> ObjectLine:
    """One object as it is now."""
    return _line(ask.app.object(ask.path["kind"], ask.path["key"]).info())


def _line(seen: ObjectInfo) -> ObjectLine:
    return line_of(ObjectLine, seen)


OPERATIONS = (
    reads("/objects", objects, Listed[ObjectLine], ObjectQuery),
    reads("/objects/{kind}/{key:any}", one, ObjectLine),
)
