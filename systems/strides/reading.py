"""What people and programs see: progress, races, bests, the calendar, and when a sync will end."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import Annotated, Any

import msgspec

from duework import Chain, ChainPage
from systems.strides import sync
from systems.strides.part import PER_CALL, QUOTA, SMALL, part

QUARTER, DAY = 900_000, 86_400_000
# What the article calls the phases of a page's job.
STATUS = {
    "waiting": "pending",
    "ready": "pending",
    "running": "processing",
    "expired": "processing",
    "done": "completed",
}
BESTS = ("5 km", "10 km", "Half", "Marathon")
# Kilometres from which a day has the next level.
LEVELS = (0.1, 5, 10, 20)
YEAR_OF_WEEKS = 52


def status_of(phase: str) -> str:
    return STATUS.get(phase, phase)


def pages_of(chain: Chain) -> list[ChainPage]:
    """All of them, however many."""
    found: list[ChainPage] = []
    while more := chain.pages(after=len(found), limit=500):
        found += more
    return found


def progress(session: str) -> dict[str, Any]:
    """The pages of a session in order, and their sum."""
    chain = sync.chain_of(session)
    pages = pages_of(chain)
    expected = expected_pages(chain)
    return {
        "session_id": session,
        "batches": [_batch(page) for page in pages],
        "summary": {
            "state": chain.state,
            "total_batches": expected,
            "completed_batches": chain.completed,
            "current_batch": chain.number,
            "total_activities": chain.counts.get("activities", 0),
            "total_races": chain.counts.get("races", 0),
            "races_added": chain.counts.get("added", 0),
            "races_removed": chain.counts.get("removed", 0),
            # A share of the activities that are expected; None where nothing is known.
            "estimated_progress": None if chain.percent is None else chain.percent / 100,
            "error": chain.error,
        },
    }


def _batch(page: ChainPage) -> dict[str, Any]:
    return {
        "batch_number": page.number,
        "status": status_of(page.phase),
        "activities_fetched": page.counts.get("activities", 0),
        "races_added": page.counts.get("added", 0),
        "started_at": page.started,
        "completed_at": page.settled,
        "error_message": page.error.partition("\n")[0] if page.error else None,
        "strava_rate_limit_15min": page.quota.get("15m"),
        "strava_rate_limit_daily": page.quota.get("1d"),
    }


def expected_pages(chain: Chain) -> int:
    """How many pages it will be, as far as is known; never fewer than there are."""
    if chain.state != "active":
        return chain.number
    rows = part.app.read(
        "select total_batches_expected as n from strides_athlete where id = :id",
        id=chain.arguments["athlete"],
    )
    return max(chain.number, (rows[0].n or 0) if rows else 0)


def log(session: str, limit: int = 200) -> list[dict[str, Any]]:
    rows = part.app.read(
        "select at, level, message from strides_log where session = :session order by at limit :n",
        session=session,
        n=limit,
    )
    return [{"at": row.at, "level": row.level, "message": row.message} for row in rows]


# --- the quota, and when it ends


class Window(msgspec.Struct, frozen=True):
    used: int
    limit: int
    ends: int


class Quotas(msgspec.Struct, frozen=True):
    quarter: Window
    day: Window
    # Nothing starts before, if the quota is spent or blocked.
    waits_until: int | None


def quotas() -> Quotas:
    found = part.app.get_pace(QUOTA.name or "")
    quarter, day = (Window(**found.details[label]) for label in ("15m", "1d"))
    spent = [window.ends for window in (quarter, day) if window.limit - window.used < SMALL]
    waits = max([*spent, found.blocked_until or 0])
    return Quotas(quarter, day, waits or None)


def ends_at(chain: Chain, now: int) -> int | None:
    """When a sync will be over at the quota's own speed; None if its length is not known.

    Pages of all athletes take turns, so their turns are played through as the quota will let them.
    """
    if calls_left(chain) is None or chain.state != "active":
        return None
    waiting = sorted(active(), key=lambda each: (each.number, each.id))
    ahead = [calls_left(each) or SMALL for each in waiting if each.priority > chain.priority]
    same = [each for each in waiting if each.priority == chain.priority]
    left = {each.id: (calls_left(each) or SMALL, each.size // PER_CALL) for each in same}
    return quota_time(ahead + calls_before(chain.id, left), quotas(), now)


def calls_before(mine: int, left: dict[int, tuple[int, int]]) -> list[int]:
    """The calls of each page up to the last one of a sync, if all take turns in this order.

    Of each sync it is known how many calls are left of it, and how many a page of it makes.
    """
    turns, pages = dict(left), []
    while mine in turns:
        for each, (calls, most) in list(turns.items()):
            pages.append(min(most, calls))
            turns[each] = (calls - most, most)
            if calls <= most:
                del turns[each]
            if each == mine and mine not in turns:
                break
    return pages


def quota_time(pages: list[int], quota: Quotas, now: int) -> int:
    """When the last of these pages will be read, if nothing else is.

    A page begins if there is enough for a small one, and goes on as long as there are calls; what is
    missing of it comes next.
    """
    at = max(now, quota.waits_until or 0)
    quarter, day = quota.quarter, quota.day
    ends, day_ends = quarter.ends, day.ends
    free, day_free = quarter.limit - quarter.used, day.limit - day.used
    for calls in pages:
        left = calls
        while left > 0:
            while at >= ends or free < SMALL or day_free < SMALL:
                at = max(at, day_ends if day_free < SMALL else ends)
                if at >= day_ends:
                    day_free, day_ends = day.limit, at - at % DAY + DAY
                free, ends = quarter.limit, at - at % QUARTER + QUARTER
            made = min(left, free, day_free)
            left, free, day_free = left - made, free - made, day_free - made
    return at


def calls_left(chain: Chain) -> int | None:
    """How many calls a sync will still make, by what is expected of it."""
    fetched, percent = int(chain.counts.get("activities", 0)), chain.percent
    if not percent:
        return None
    left = max(0, round(fetched * 100 / percent) - fetched)
    # Every call brings its border once more, and the last one of all is empty.
    return math.ceil(left / (PER_CALL - 1)) + 1


def active() -> list[Chain]:
    return part.app.chains(task=sync.activities.name, state="active", limit=100)


# --- athletes and races


def athletes() -> list[Any]:
    return part.app.read(
        "select a.*, (select count(*) from strides_race r where r.athlete_id = a.id"
        " and r.is_hidden = 0) as races from strides_athlete a order by a.firstname, a.id"
    )


Words = Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[^\x00]*$")]
Day = Annotated[str, msgspec.Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]
Offset = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class Wanted(msgspec.Struct, kw_only=True):
    """Which races: every filter that is empty lets all through."""

    athlete: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    event: Words = ""
    distance: Words = ""
    since: Day = ""
    until: Day = ""
    hidden: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 50
    offset: Offset = 0


RACES = """
select r.*, a.firstname, a.lastname from strides_race r join strides_athlete a on a.id = r.athlete_id
where (:any_athlete = 1 or r.athlete_id = :athlete)
and (:hidden = 1 or r.is_hidden = 0)
and (:distance = '' or r.distance_class = :distance)
and (:since = '' or r.date >= :since) and (:until = '' or r.date <= :until)
and (:event = '' or lower(r.event_name) like :event or lower(r.name) like :event)
order by r.start desc, r.strava_activity_id desc limit :limit offset :offset
"""


def races(wanted: Wanted) -> list[Any]:
    """Newest first."""
    pattern = wanted.event.lower().replace("%", "").replace("_", "")
    return part.app.read(
        RACES,
        any_athlete=int(wanted.athlete is None),
        athlete=wanted.athlete or 0,
        hidden=int(wanted.hidden),
        distance=wanted.distance,
        since=wanted.since,
        until=wanted.until,
        event=f"%{pattern}%" if pattern else "",
        limit=wanted.limit,
        offset=wanted.offset,
    )


def events(limit: int = 200) -> list[str]:
    """Names that were given before, the most frequent first: what a field may suggest."""
    rows = part.app.read(
        "select event_name as name, count(*) as n from strides_race group by event_name"
        " order by n desc, name limit :limit",
        limit=limit,
    )
    return [row.name for row in rows]


class Totals(msgspec.Struct, frozen=True):
    races: int
    by_score: int
    kilometres: float
    # The best of each distance that has one: its row.
    bests: dict[str, Any]


def totals(athlete: int) -> Totals:
    [sums] = part.app.read(
        "select count(*) as n, coalesce(sum(distance), 0) as metres,"
        " coalesce(sum(case when known_by like 'parkrun score%' then 1 else 0 end), 0) as scored"
        " from strides_race where athlete_id = :id and is_hidden = 0",
        id=athlete,
    )
    found = {}
    for name in BESTS:
        rows = part.app.read(
            "select elapsed_time, date from strides_race where athlete_id = :id and is_hidden = 0"
            " and distance_class = :name order by elapsed_time limit 1",
            id=athlete,
            name=name,
        )
        if rows:
            found[name] = rows[0]
    return Totals(sums.n, sums.scored, float(sums.metres) / 1000, found)


class Calendar(msgspec.Struct, frozen=True):
    """The last year: a level and words for each day, from a Monday on; months by their week."""

    days: list[tuple[int, str]]
    months: list[tuple[int, str]]


def calendar(athlete: int, today: date) -> Calendar:
    first = today - timedelta(days=today.weekday() + YEAR_OF_WEEKS * 7)
    rows = part.app.read(
        "select day, sum(distance) as metres from strides_activity"
        " where athlete_id = :id and day >= :first group by day",
        id=athlete,
        first=first.isoformat(),
    )
    metres = {row.day: float(row.metres) for row in rows}
    every = [first + timedelta(days=number) for number in range((today - first).days + 1)]
    days = [_day(each, metres.get(each.isoformat(), 0.0) / 1000) for each in every]
    months = [
        (number // 7, each.strftime("%b")) for number, each in enumerate(every) if each.day == 1
    ]
    return Calendar(days, months)


def _day(day: date, kilometres: float) -> tuple[int, str]:
    level = sum(kilometres >= least for least in LEVELS)
    words = f"{kilometres:.1f} km" if level else "rest"
    return level, f"{day:%a} {day.day} {day:%b %Y}: {words}"
