"""Pages: the athletes with the quota, one athlete with its sync, races and calendar, one race."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Any

import msgspec

from duework import Chain, NotFound, Reply, Template, Transaction, UsageError
from systems.strides import charts, oauth, reading, sync
from systems.strides.athlete import find
from systems.strides.files import uploads
from systems.strides.part import part, settings
from systems.strides.races import distance_class
from systems.strides.reading import BESTS, Day, Offset, Wanted, Words, status_of

MOST_SHOWN = 50
DISTANCES = (*BESTS, "14 km", "30 km", "Ultra", "Other")


class Filter(msgspec.Struct, kw_only=True):
    """Which races the page of an athlete shows."""

    event: Words = ""
    distance: Words = ""
    since: Day = ""
    offset: Offset = 0


class Came(msgspec.Struct, kw_only=True):
    """What a browser brings back from Strava."""

    state: Words = ""
    code: str = ""
    scope: str = ""
    error: str = ""


class Correction(msgspec.Struct, kw_only=True):
    """What the person says of a race."""

    event: Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")]
    minutes: int
    seconds: int
    kilometres: float
    hidden: bool = False


class Sync(msgspec.Struct):
    full: bool = False


def clock(seconds: float) -> str:
    """41:08, 1:31:55."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def pace(seconds: float, metres: float) -> str:
    return f"{clock(seconds / metres * 1000)} /km" if metres > 0 else ""


def day(text: str) -> str:
    """Sat 14 Nov 2026."""
    found = date.fromisoformat(text)
    return f"{found:%a} {found.day} {found:%b %Y}"


def today() -> date:
    return datetime.fromtimestamp(part.app.now() / 1000, UTC).date()


class Shown(msgspec.Struct, frozen=True):
    """A sync, as a page shows it."""

    chain: Chain
    session: str
    fetched: int
    expected: int | None
    pages: int
    status: str
    waits_until: int | None
    ends_at: int | None


def shown(chain: Chain | None) -> Shown | None:
    if chain is None:
        return None
    fetched, percent = int(chain.counts.get("activities", 0)), chain.percent
    running = chain.state == "active"
    expected = round(fetched * 100 / percent) if percent else None
    return Shown(
        chain,
        chain.arguments["session"],
        fetched,
        expected,
        reading.expected_pages(chain),
        chain.state,
        reading.quotas().waits_until if running else None,
        reading.ends_at(chain, part.app.now()) if running else None,
    )


def common(athlete: int) -> dict[str, Any]:
    row = find(athlete)
    found = shown(sync.latest(athlete))
    [count] = part.app.read("select count(*) as n from strides_athlete")
    return {
        "athlete": row,
        "sync": found,
        "athletes": count.n,
        "totals": reading.totals(athlete),
        "clock": clock,
        "pace": pace,
        "day": day,
        "status_of": status_of,
    }


@part.page("/", title="Strides", icon="strides", live=("chains",))
def front() -> Template:
    rows = reading.athletes()
    syncs = {row.id: shown(sync.latest(row.id)) for row in rows}
    return Template(
        "athletes.html",
        rows=rows,
        syncs=syncs,
        quota=reading.quotas(),
        most=settings().most_athletes,
        bar=charts.bar,
    )


@part.page("/athletes/{athlete}", live=("chains", uploads.TOPIC))
def overview(athlete: int, query: Filter) -> Template:
    given = common(athlete)
    wanted = Wanted(
        athlete=athlete,
        event=query.event,
        distance=query.distance,
        since=query.since,
        limit=MOST_SHOWN + 1,
        offset=query.offset,
    )
    races = reading.races(wanted)
    calendar = reading.calendar(athlete, today())
    return Template(
        "athlete.html",
        **given,
        **_pictures(given["sync"]),
        uploads=uploads.latest(athlete),
        bests=BESTS,
        calendar=charts.heat(
            calendar.days, calendar.months, 0, "Distance on each day of the last year"
        ),
        swatch=charts.swatch,
        races=races[:MOST_SHOWN],
        more=len(races) > MOST_SHOWN,
        most=MOST_SHOWN,
        filter=query,
        distances=DISTANCES,
    )


def _pictures(found: Shown | None) -> dict[str, Any]:
    if found is None:
        return {"bar": None, "columns": None}
    counts = [int(page.counts.get("races", 0)) for page in reading.pages_of(found.chain)]
    counts += [0] * (found.pages - len(counts))
    share = (found.chain.percent or 0) / 100
    return {
        "bar": charts.bar(share, f"{share:.0%} of the activities"),
        "columns": charts.columns(counts, "races found on each page so far"),
    }


@part.page("/athletes/{athlete}/sync", live=("chains",))
def sync_page(athlete: int) -> Template:
    given = common(athlete)
    found = given["sync"]
    pages = reading.pages_of(found.chain) if found else []
    lines = reading.log(found.session) if found else []
    return Template("sync.html", **given, **_pictures(found), pages=pages[::-1], lines=lines[::-1])


@part.page("/athletes/{athlete}/races/{race}")
def race_page(athlete: int, race: int) -> Template:
    return Template(
        "race.html", **common(athlete), race=_race(athlete, race), events=reading.events()
    )


def _race(athlete: int, race: int) -> Any:
    rows = part.app.read(
        "select * from strides_race where athlete_id = :athlete and strava_activity_id = :race",
        athlete=athlete,
        race=race,
    )
    if not rows:
        raise NotFound(f"athlete {athlete} has no race {race}")
    return rows[0]


@part.page("/callback", auth="public", nav=False)
async def callback(query: Came) -> Reply:
    """Where Strava sends the athlete's browser back to."""
    row = await oauth.finish(
        state=query.state, code=query.code, scope=query.scope, error=query.error
    )
    return Reply(303, headers={"location": f"/strides/athletes/{row.id}"})


# --- what people do


@part.page("/connect", nav=False)
def connect() -> Reply:
    """Begin the authorisation; Strava shows what is asked for."""
    where = oauth.begin(f"{settings().public_url.rstrip('/')}/strides/callback")
    return Reply(303, headers={"location": where})


@part.action("/athletes/{athlete}/sync")
def start_sync(athlete: int, form: Sync) -> str:
    started = sync.start(athlete, full=form.full)
    return "The sync is under way already" if started.existed else "The sync has begun"


@part.action("/athletes/{athlete}/cancel")
def cancel_sync(athlete: int) -> str:
    said = sync.cancel(_latest(athlete))
    return "It stops after this page" if said == "cancelling" else f"The sync is {said}"


@part.action("/athletes/{athlete}/resume")
def resume_sync(athlete: int) -> str:
    chain = sync.resume(_latest(athlete))
    return f"It goes on after page {chain.completed}"


@part.action(
    "/athletes/{athlete}/disconnect", confirm="Disconnect athlete {athlete}, and delete it?"
)
async def disconnect(athlete: int) -> Reply:
    await oauth.disconnect(athlete)
    return Reply(303, headers={"location": "/strides/"})


def _latest(athlete: int) -> str:
    chain = sync.latest(athlete)
    if chain is None:
        raise NotFound(f"athlete {athlete} has no sync")
    return str(chain.arguments["session"])


@part.action("/athletes/{athlete}/races/{race}/correct")
def correct(athlete: int, race: int, form: Correction, tx: Transaction) -> str:
    """What the person says of a race; no sync writes over it."""
    event, taken = form.event.strip(), form.minutes * 60 + form.seconds
    if not event or len(event) > 200:  # noqa: PLR2004 - characters
        raise UsageError("An event has a name of at most 200 characters")
    if form.minutes < 0 or not 0 <= form.seconds < 60 or not 0 < taken < 360_000:  # noqa: PLR2004
        raise UsageError("A time is minutes and seconds, of at most 100 hours")
    if not 0 < form.kilometres < 1_000:  # noqa: PLR2004 - kilometres; also what is no number
        raise UsageError("A distance is between 0 and 1,000 km")
    metres = form.kilometres * 1000
    changed = tx.write(
        "update strides_race set event_name = :event, elapsed_time = :taken, distance = :metres,"
        " distance_class = :name, is_hidden = :hidden, edited = 1,"
        " known_by = 'corrected by hand'"
        " where athlete_id = :athlete and strava_activity_id = :race",
        event=event,
        taken=taken,
        metres=metres,
        name=distance_class(metres),
        hidden=int(form.hidden),
        athlete=athlete,
        race=race,
    )
    if not changed.changed:
        raise NotFound(f"athlete {athlete} has no race {race}")
    return f"{event} is corrected"
