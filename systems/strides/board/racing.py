"""Pages of races: everybody's with filters and an export, and the records of one athlete."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec

from duework import Reply, Template
from systems.strides import reading
from systems.strides.board import records
from systems.strides.pages import DISTANCES, MOST_SHOWN, clock, common, day, pace
from systems.strides.part import part
from systems.strides.reading import BESTS, Day, Offset, Wanted, Words

MOST_MILESTONES = 50


class Filters(msgspec.Struct, kw_only=True):
    """Which races; every filter that is empty lets all through."""

    athlete: Words = ""
    event: Words = ""
    distance: Words = ""
    since: Day = ""
    until: Day = ""
    offset: Offset = 0

    def wanted(self, limit: int = 50) -> Wanted:
        number = int(self.athlete) if self.athlete.isdecimal() and len(self.athlete) < 19 else None  # noqa: PLR2004 - digits of a bigint
        return Wanted(
            athlete=number or None,
            event=self.event,
            distance=self.distance,
            since=self.since,
            until=self.until,
            limit=limit,
            offset=self.offset,
        )

    def query(self) -> str:
        given = msgspec.to_builtins(self)
        return urlencode({name: given[name] for name in given if given[name] and name != "offset"})


@part.page("/races", title="Races")
def races_page(query: Filters) -> Template:
    wanted = query.wanted(MOST_SHOWN + 1)
    found = reading.races(wanted)
    return Template(
        "races.html",
        races=found[:MOST_SHOWN],
        more=len(found) > MOST_SHOWN,
        most=MOST_SHOWN,
        filter=wanted,
        query=query.query(),
        people=reading.athletes(),
        events=reading.events(),
        distances=DISTANCES,
        clock=clock,
        pace=pace,
        day=day,
    )


@part.page("/races.csv", nav=False)
def races_csv(query: Filters) -> Reply:
    """The same to take away."""
    headers = {
        "content-type": "text/csv; charset=utf-8",
        "content-disposition": 'attachment; filename="races.csv"',
    }
    return Reply(200, records.to_csv(query.wanted()), headers)


@part.route("/api/races.csv")
def export(query: Wanted) -> Reply:
    """For programs; `limit` and `offset` do not count."""
    return Reply(200, records.to_csv(query), {"content-type": "text/csv; charset=utf-8"})


@part.page("/athletes/{athlete}/records")
def records_page(athlete: int) -> Template:
    return Template(
        "records.html",
        **common(athlete),
        eddington=records.eddington(athlete),
        bests=[(name, records.top(athlete, name)) for name in BESTS],
        years=records.years(athlete),
        milestones=records.milestones(athlete)[:MOST_MILESTONES],
    )
