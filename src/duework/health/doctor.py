"""Is all of it fit to be left alone? What somebody should know before a deploy, and once in a while.

To the checkup of the database it adds what is declared: that every schedule has an owner, a way to find out
cheaply that there is nothing to do, and a written reason if it runs each minute; and what runs out or is
forgotten: retention, pruning, the disk, backups. Each look reads a bounded number of rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from duework.db import migrate
from duework.db.database import Database, Tx
from duework.db.queries import load
from duework.health.checkup import Check, checkup, version
from duework.health.words import length, size
from duework.ids import drawn_at
from duework.kernel.engine import OWN_TASKS
from duework.kernel.tasks import Registry

DOCTOR = load("duework.health", "doctor")

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
# So many schedules are looked at, and so many are named.
LOOKED, NAMED = 1000, 3
# Before this one a reset of the log could corrupt the database.
OLDEST_SQLITE = (3, 51, 3)
LITTLE_DISK = 1 << 30
NO_DISK = 64 << 20
OLD_BACKUP = 7 * DAY
BACKUP = "backup"
_EVERY_MINUTE = re.compile(r"(\*|\*/1|0-59)(/1)?\s")


def doctor(
    database: Database,
    steps: Sequence[migrate.Migrations],
    registry: Registry,
    *,
    now: int,
    here: int,
) -> list[Check]:
    """Look at everything once; `now` is the time that rules, `here` what this host's own clock shows."""
    found = database.settings()
    checks = [_library(database.kind, found), *checkup(database, steps, here)[1:]]
    with database.reading() as tx:
        checks += [_future(tx, now), *_schedules(tx), _retention(registry), _pruning(tx, now)]
        checks += [_backups(tx, database.kind, now)]
    return [*checks, *_disk(database.kind, found)]


def note_backup(database: Database, now: int) -> None:
    """A copy of the database is whole since now."""
    with database.transaction() as tx:
        tx.query(DOCTOR.say, {"name": BACKUP, "value": str(now)})


def _library(kind: str, found: dict[str, str]) -> Check:
    newest = found["server_version"].split(".")[:3]
    if kind != "sqlite" or tuple(map(int, newest)) >= OLDEST_SQLITE:
        return Check("version", version(kind, found))
    advice = (
        f"a reset of its log can corrupt the database: {'.'.join(map(str, OLDEST_SQLITE))} or newer"
    )
    return Check("version", version(kind, found), "problem", advice)


def _future(tx: Tx, now: int) -> Check:
    """Ids are drawn by the clock: one from the future was drawn by a clock that is, or was, wrong."""
    newest = tx.query(DOCTOR.newest_job, {})[0][0]
    ahead = 0 if newest is None else drawn_at(newest) - now
    if ahead <= 2 * MINUTE:
        return Check("clock skew", "no job is from the future")
    advice = "a clock is wrong, or was set back: compare those of all hosts"
    return Check("clock skew", f"a job was made {length(ahead)} from now", "warning", advice)


# --- what is declared


def _schedules(tx: Tx) -> Iterator[Check]:
    rows = tx.query(DOCTOR.schedules, {"looked": LOOKED})
    said = f"{len(rows)} that repeat"
    yield _all("schedule owners", said, [row for row in rows if not row[3]], "`owner=`")
    busy = [row for row in rows if _each_minute(row[1], row[2])]
    unsaid = [row for row in busy if not row[4]]
    said = f"{len(busy) or 'none'} each minute or more often"
    yield _all("schedule reasons", said, unsaid, "`why=`, or a longer interval", bad=True)
    # Only a decorator can say how to find out that there is nothing to do.
    blind = [row for row in rows if row[6] and not row[5]]
    yield _all(
        "idle checks", f"{sum(bool(row[6]) for row in rows)} by decorators", blind, "`idle=`"
    )


def _all(name: str, said: str, lacking: list[Any], what: str, *, bad: bool = False) -> Check:
    if not lacking:
        return Check(name, said)
    keys, them = ", ".join(row[0] for row in lacking[:NAMED]), "it" if len(lacking) == 1 else "them"
    more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
    return Check(name, said, "problem" if bad else "warning", f"{keys}{more}: give {them} {what}")


def _each_minute(kind: str, rule: str) -> bool:
    """Whether it fires each minute or more often, as far as its rule says so plainly."""
    if kind == "cron":
        fields = rule.split()
        # With six fields the first are seconds.
        return len(fields) > 5 or bool(_EVERY_MINUTE.match(f"{rule} "))  # noqa: PLR2004
    if kind == "every":
        return rule.isdigit() and int(rule) <= MINUTE
    interval = re.search(r"INTERVAL=(\d+)", rule.upper())
    return "FREQ=MINUTELY" in rule.upper() and (interval is None or interval[1] == "1")


def _retention(registry: Registry) -> Check:
    """Rows that nobody deletes grow without end."""
    theirs = [name for name in registry.names() if not name.startswith(OWN_TASKS)]
    kept = [name for name in theirs if registry.find(name).keep_ms is None]
    if not kept:
        tasks = (
            "1 task, which lets go" if len(theirs) == 1 else f"{len(theirs)} tasks, which let go"
        )
        said = f"{tasks} of what is done" if theirs else "no task is known here"
        return Check("retention", said)
    named = ", ".join(kept[:NAMED]) + (
        f" and {len(kept) - NAMED} more" if len(kept) > NAMED else ""
    )
    advice = f"{named}: rows of done jobs are kept for ever; give `keep=` a length"
    return Check(
        "retention", f"{len(kept)} of {len(theirs)} tasks keep everything", "warning", advice
    )


def _pruning(tx: Tx, now: int) -> Check:
    rows = tx.query(DOCTOR.oldest_kept, {})
    late = now - rows[0][0] if rows else 0
    if late <= HOUR:
        return Check("pruning", "what is over is deleted")
    advice = "a worker deletes it: is one running?"
    return Check("pruning", f"a row should have gone {length(late)} ago", "warning", advice)


# --- what runs out, and what is forgotten


def _backups(tx: Tx, kind: str, now: int) -> Check:
    if kind != "sqlite":
        return Check("backups", "by the server's own tools")
    rows = tx.query(DOCTOR.said, {"name": BACKUP})
    advice = "copy it with `duework db backup FILE`, or by a tool of your own"
    if not rows or not rows[0][0].isdigit():
        return Check("backups", "none was made by `duework db backup`", "warning", advice)
    age = max(0, now - int(rows[0][0]))
    words = f"the last was made {length(age)} ago"
    return (
        Check("backups", words) if age <= OLD_BACKUP else Check("backups", words, "warning", advice)
    )


def _disk(kind: str, found: dict[str, str]) -> Iterator[Check]:
    if kind != "sqlite":
        yield Check("disk", "the server's")
        return
    room = os.statvfs(os.path.dirname(found["file"]) or ".")
    free = room.f_bavail * room.f_frsize
    words = f"{size(free)} are free"
    if free < NO_DISK:
        yield Check("disk", words, "problem", "nothing can be written soon: make room")
    elif free < max(LITTLE_DISK, int(found["bytes"])):
        yield Check("disk", words, "warning", "a copy of the database may not fit: make room")
    else:
        yield Check("disk", words)
