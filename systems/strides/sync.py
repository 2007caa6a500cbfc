"""The sync: a chain of pages over an athlete's activities, newest first.

A page makes a few calls (`sizes.py`), each of which it has taken from the shared quota before. Each call
asks for what started before the oldest second that was seen, and that second once more: `before` excludes,
and two recordings of one run start in the same second. The ids of that border go along in the cursor, so
that nothing counts twice. Pages may be short; only an empty answer is the end.

What a page found, its counts, the athlete's row and the next page are one commit. What Strava does not
have any more is deleted at the end of the whole sync, in the commit that ends it.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from duework import (
    Cancel,
    Chain,
    Conflict,
    End,
    Fail,
    Next,
    NotFound,
    Page,
    Throttled,
    http,
)
from systems.strides import athlete as athletes
from systems.strides import sizes
from systems.strides.client import (
    COUNTED,
    AccessLost,
    ApplicationInactive,
    CallsSpent,
    Reader,
)
from systems.strides.part import PER_CALL, QUOTA, SMALL, part, settings
from systems.strides.races import Activity, activity_row, race_row, recognise
from systems.strides.statements import (
    ACTIVITIES,
    DOUBLE_ACTIVITIES,
    DOUBLE_RACES,
    PUT_LOG,
    RACES,
)

Kind = Literal["initial", "full", "incremental"]
Counts = dict[str, int | float]
# After one of these a page keeps what it has, and the next one begins where it stopped.
TROUBLE = (Throttled, CallsSpent, http.HttpError, OSError)
DAY = 86_400
CANCELLED = "Cancelled by user"


class Place(msgspec.Struct, frozen=True):
    """Where the next call starts; the cursor of the chain."""

    before: int
    # 2 and more only if a whole answer began in one second.
    page: int = 1
    # Ids of the oldest second, which the next call brings once more.
    border: list[int] = []
    # What the athlete's public totals say, and how many of those were seen.
    public: int = 0
    counted: int = 0

    def below(self, answer: list[Activity], new: list[Activity]) -> Place:
        """The place after an answer that was not empty."""
        oldest = min(one.start for one in answer)
        border = [one.id for one in answer if one.start == oldest]
        counted = self.counted + sum(one.sport in COUNTED and not one.private for one in new)
        if oldest + 1 < self.before:
            changes: dict[str, Any] = {"before": oldest + 1, "page": 1, "border": border}
        elif len(answer) < PER_CALL:
            # The border alone: it was whole, and what is older starts below it.
            changes = {"before": oldest, "page": 1, "border": []}
        else:
            changes = {"page": self.page + 1, "border": sorted({*self.border, *border})}
        return msgspec.structs.replace(self, **changes, counted=counted)


class Walked(msgspec.Struct):
    """What the calls of one page found."""

    found: dict[int, Activity]
    place: Place
    ended: bool = False


async def walk(reader: Reader, place: Place, after: int) -> Walked:
    """Call until the page's calls are spent, or there is nothing older."""
    walked = Walked({}, place)
    while not walked.ended and await reader.ready():
        here = walked.place
        try:
            answer = await reader.activities(before=here.before, after=after, page=here.page)
        except TROUBLE as trouble:
            if not walked.found:
                raise
            if isinstance(trouble, Throttled):
                QUOTA.blocked(trouble.after_ms / 1000)
            break
        if not answer:
            walked.ended = True
            break
        known = {*here.border, *walked.found}
        new = [one for one in answer if one.id not in known]
        walked.found.update((one.id, one) for one in new)
        walked.place = here.below(answer, new)
    return walked


@part.chain(
    key="athlete:{athlete}",
    page_size=sizes.USUAL * PER_CALL,
    pace=QUOTA.cost(SMALL),
    queue="strides",
    concurrency=10,
    retries=3,
    backoff=("1m", "5m", "30m"),
    timeout="3m",
)
async def activities(
    page: Page, athlete: int, session: str, kind: Kind, before: int, after: int
) -> Next | End | Fail | Cancel:
    """One page of an athlete's activities."""
    version = page.run.read("select sync_version from strides_athlete where id = :id", id=athlete)
    if not version:
        return Cancel("the athlete is gone")
    # Nothing yet; what is not used of what the page took is given back, however it ends.
    page.run.spent(QUOTA, 0)
    try:
        reader = await _reader(page, athlete, kind)
        try:
            place = await _place(page, reader, athlete, kind, before)
            walked = await walk(reader, place, after)
        finally:
            # What it took beyond its first calls it has made, every one.
            page.run.spent(QUOTA, reader.made - reader.extra)
        _check_whole(page, walked)
    except AccessLost as lost:
        await athletes.lose_access(athlete, str(lost))
        return Fail(str(lost))
    except ApplicationInactive as inactive:
        await _say(session, athlete, page.run.now, "error", str(inactive))
        raise parked() from inactive
    return _stored(page, walked, kind, athlete, session, version[0].sync_version, reader.used)


def parked() -> Throttled:
    """Nobody reads for an hour: Strava refuses the application, and not an athlete."""
    return Throttled("1h")


async def _reader(page: Page, athlete: int, kind: Kind) -> Reader:
    token = await athletes.access_token(athlete)
    # The first page of all asks how much there is by a call of its own.
    most = await sizes.calls_of(page.size) + (page.cursor is None and kind != "incremental")
    return Reader(
        token, lambda stale: athletes.renew(athlete, stale), lambda: page.run.now, most=most
    )


async def _place(page: Page, reader: Reader, athlete: int, kind: Kind, before: int) -> Place:
    """Where this page begins; the first one of all asks how much there is, too."""
    if page.cursor is not None:
        return msgspec.convert(page.cursor, Place)
    public = 0 if kind == "incremental" else await reader.total(athlete)
    return Place(before, public=public)


def _check_whole(page: Page, walked: Walked) -> None:
    """An end that comes much too early is an error of Strava's, and must not delete what is stored."""
    reached = page.totals.get("activities", 0) + len(walked.found)
    if walked.ended and reached * 2 < walked.place.public:
        raise http.HttpError(
            f"Strava has shown {reached} activities, and says that there are"
            f" {walked.place.public} or more"
        )


async def _say(session: str, athlete: int, now: int, level: str, message: str) -> None:
    async with part.app.transaction() as tx:
        _log(tx, session, athlete, now, level, message)


def _log(to: Any, session: str, athlete: int, now: int, level: str, message: str) -> None:
    """A line of the log, by a run or in a transaction."""
    values = {"session": session, "athlete": athlete, "at": now, "level": level}
    to.write(PUT_LOG, **values, message=message)


def _stored(
    page: Page,
    walked: Walked,
    kind: Kind,
    athlete: int,
    session: str,
    version: int,
    used: Counts,
) -> Next | End:
    """Everything that the page found, to be committed with its end."""
    run, seen = page.run, page.chain
    found = list(walked.found.values())
    races = [
        race_row(one, known, athlete=athlete, seen=seen, now=run.now)
        for one in found
        if (known := recognise(one)) is not None
    ]
    counts: Counts = {
        "activities": len(found),
        "races": len(races),
        "added": _added(page, athlete, races),
    }
    ACTIVITIES.write(run, [activity_row(one, athlete, seen) for one in found])
    RACES.write(run, races)
    total = _total(page, walked, len(found))
    size = sizes.next_size(kind, total)
    reached = int(page.totals.get("activities", 0)) + len(found)
    if total:
        page.expect(total, of="activities")
    run.write(
        "update strides_athlete set sync_status = 'in_progress', sync_session_id = :session,"
        " current_batch_number = :next, total_batches_expected = :expected"
        # A sync that was cancelled while this page ran has raised the version.
        " where id = :id and sync_version = :version",
        id=athlete,
        session=session,
        next=page.number if walked.ended else page.number + 1,
        expected=_pages(page.number, total - reached, size) if total else None,
        version=version,
    )
    if walked.ended:
        return End(counts=counts, quota=used)
    message = f"Batch {page.number} complete. Enqueued batch {page.number + 1}"
    _log(run, session, athlete, run.now, "info", message)
    return Next(cursor=msgspec.to_builtins(walked.place), counts=counts, quota=used, size=size)


def _added(page: Page, athlete: int, races: list[dict[str, Any]]) -> int:
    """How many of these are new; nothing else writes this athlete's races meanwhile."""
    if not races:
        return 0
    starts = [race["start"] for race in races]
    rows = page.run.read(
        "select strava_activity_id as id from strides_race"
        " where athlete_id = :athlete and start between :oldest and :newest",
        athlete=athlete,
        oldest=min(starts),
        newest=max(starts),
    )
    there = {row.id for row in rows}
    return sum(race["strava_activity_id"] not in there for race in races)


def _pages(number: int, left: int, size: int) -> int:
    """How many pages it will be; every call but the first brings the border once more."""
    return number + math.ceil(left / (size - size // PER_CALL))


def _total(page: Page, walked: Walked, more: int) -> int:
    """How many activities it will be, if that can be said; else 0.

    The totals know public activities of three sports; the share of those among what was seen so far
    says how much there is of everything.
    """
    place, reached = walked.place, int(page.totals.get("activities", 0)) + more
    if not place.public:
        return 0
    share = place.counted / reached if reached and place.counted else 1.0
    return max(reached, round(place.public / share))


# --- the end


@activities.finished
def reconcile(tx: Any, chain: Chain) -> dict[str, int]:
    """Delete what Strava does not have any more, now that all of it was seen."""
    given = chain.arguments
    values = {"athlete": given["athlete"], "after": given["after"], "seen": chain.id}
    gone = tx.write(
        "delete from strides_activity"
        " where athlete_id = :athlete and start > :after and seen <> :seen and id > 0",
        **values,
    )
    races = tx.write(
        "delete from strides_race"
        " where athlete_id = :athlete and start > :after and seen <> :seen and edited = 0"
        " and strava_activity_id > 0",
        **values,
    )
    _drop_doubles(tx, given["athlete"])
    return {"gone": gone.changed, "removed": races.changed}


def _drop_doubles(tx: Any, athlete: int) -> None:
    """Recordings from files, below zero, that Strava has told us of, too; one that was edited stays."""
    for statement in (DOUBLE_RACES, DOUBLE_ACTIVITIES):
        tx.write(statement, athlete=athlete)


@activities.settled
def ended(tx: Any, chain: Chain, outcome: str) -> None:
    """Say on the athlete's row how its sync ended, and in the log."""
    given, now = chain.arguments, part.app.now()
    error = {"done": None, "cancelled": CANCELLED}.get(outcome, _first_line(chain.error))
    tx.write(
        "update strides_athlete set sync_status = :status, sync_outcome = :outcome,"
        " sync_error = :error, current_batch_number = 0, sync_session_id = null,"
        " last_synced_at = case when :outcome = 'done' then :now else last_synced_at end,"
        " last_started = case when :outcome = 'done' then :started else last_started end,"
        " sync_version = sync_version + 1 where id = :id",
        id=given["athlete"],
        status="error" if outcome == "failed" else "completed",
        outcome=outcome,
        error=error,
        now=now,
        started=chain.started,
    )
    level, message = _summary(chain, outcome)
    _log(tx, given["session"], given["athlete"], now, level, message)
    old = now - settings().keep * DAY * 1000
    tx.write("delete from strides_log where at < :old", old=old)


def _first_line(error: str | None) -> str:
    """What went wrong, without where in the code."""
    return (error or "").partition("\n")[0]


def _summary(chain: Chain, outcome: str) -> tuple[str, str]:
    if outcome == "failed":
        return "error", f"Batch {chain.number} failed: {_first_line(chain.error)}"
    counts = chain.counts
    done = (
        f"{chain.completed} {'batch' if chain.completed == 1 else 'batches'},"
        f" {counts.get('activities', 0)} activities, {counts.get('added', 0)} races added"
    )
    if outcome == "cancelled":
        return "warning", f"{CANCELLED} after {done}"
    return "success", f"Sync completed: {done}"


# --- what people do


class Started(msgspec.Struct, frozen=True):
    """A sync that was asked for; `existed` if it was under way already."""

    session: str
    chain: int
    existed: bool


def start(athlete: int, *, full: bool = False) -> Started:
    """Sync an athlete: all of it the first time, or if `full`; else what is new."""
    with part.app.transaction() as tx:
        return start_in(tx, athlete, full=full)


def start_in(tx: Any, athlete: int, *, full: bool = False) -> Started:
    """The same in a transaction: the chain and the athlete's row are one commit."""
    rows = tx.read("select * from strides_athlete where id = :id", id=athlete)
    if not rows:
        raise NotFound(f"there is no athlete {athlete}; it connects at /strides/connect")
    row, now = rows[0], part.app.now()
    if not row.connected:
        raise Conflict(f"athlete {athlete} is not connected: {row.reason}")
    kind: Kind = "initial" if row.last_started is None else "full" if full else "incremental"
    after = 0
    if kind == "incremental":
        after = max(0, row.last_started // 1000 - settings().overlap * DAY)
    # New athletes go first. Watches that are ahead record tomorrow's runs.
    starting = activities.using(
        priority=5 if kind == "initial" else 0, page_size=sizes.first_size(kind)
    )
    chain = tx.start(
        starting,
        athlete=athlete,
        session=f"sync-{athlete}-{now}",
        kind=kind,
        before=now // 1000 + DAY,
        after=after,
    )
    session = chain.arguments["session"]
    if not chain.existed:
        _under_way(tx, athlete, session, row.sync_version)
        _log(tx, session, athlete, now, "info", f"Sync started: {kind}")
    return Started(session, chain.id, chain.existed)


def _under_way(tx: Any, athlete: int, session: str, version: int) -> None:
    tx.write(
        "update strides_athlete set sync_status = 'in_progress', sync_outcome = null,"
        " sync_error = null, sync_session_id = :session, current_batch_number = 1,"
        " total_batches_expected = null where id = :id and sync_version = :version",
        id=athlete,
        session=session,
        version=version,
    )


def chain_of(session: str) -> Chain:
    """The chain of a session; `NotFound` if there is none, or none any more."""
    word, _, rest = session.partition("-")
    athlete, _, started = rest.partition("-")
    if word == "sync" and athlete.isdecimal() and started.isdecimal():
        for chain in part.app.chains(task=activities.name, key=f"athlete:{athlete}"):
            if chain.arguments["session"] == session:
                return chain
    raise NotFound(f"there is no sync session {session!r}")


def latest(athlete: int) -> Chain | None:
    """The newest chain of an athlete, if there is one."""
    found = part.app.chains(task=activities.name, key=f"athlete:{athlete}", limit=1)
    return found[0] if found else None


def cancel(session: str) -> str:
    """End a sync between two pages; what was stored stays."""
    return chain_of(session).cancel(CANCELLED)


def resume(session: str) -> Chain:
    """Go on after the last page that was stored."""
    return _again(chain_of(session), Chain.resume)


def retry(session: str) -> Chain:
    """Run a failed page once more, under its number."""
    return _again(chain_of(session), Chain.retry)


def _again(chain: Chain, how: Any) -> Chain:
    athlete, session = chain.arguments["athlete"], chain.arguments["session"]
    row = athletes.find(athlete)
    if not row.connected:
        raise Conflict(f"athlete {athlete} is not connected: {row.reason}")
    going: Chain = how(chain)
    # If this is lost in a crash, the next page says the same with its own commit.
    with part.app.transaction() as tx:
        _under_way(tx, athlete, session, row.sync_version)
        now = part.app.now()
        _log(tx, session, athlete, now, "info", f"Sync resumed after batch {going.completed}")
    return going
