"""Files that a form of the page sends: kept as blobs, taken in by jobs, and what became of each.

A file is a blob before its row and its job are committed, so an answer is given only for what survives. A
blob whose commit did not come is over by itself after a week. Recordings, the row that tells of them and the
job that forgets the blob are one commit.
"""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import msgspec

from duework import Job, NotFound, Run, Transaction, Upload, UsageError
from systems.strides.athlete import find
from systems.strides.files import store
from systems.strides.files.opening import ARCHIVE
from systems.strides.files.recording import zone_of
from systems.strides.files.refusals import FileRefused
from systems.strides.part import part, settings

# Besides the files a form has its fields.
LARGEST_FORM = ARCHIVE + 1_000_000
KEPT = "7d"
SHOWN, REASONS, EVERY = 20, 50, 100
DAY_MS = 86_400_000
TOPIC = "strides.uploads:{athlete}"
GONE = "what was sent is not here any more; send it again"
ADD = """
insert into strides_upload (id, athlete_id, sent, name, size, zone, race)
values (:id, :athlete, :sent, :name, :size, :zone, :race)
"""
TAKEN = """
update strides_upload set status = 'taken', reason = null, added = :added,
    there_already = :there_already, races = :races, left_out = :left_out, reasons = :reasons
where id = :id
"""
REFUSED = "update strides_upload set status = 'refused', reason = :reason where id = :id"


class FileForm(msgspec.Struct, kw_only=True):
    """What a form says besides its files."""

    zone: Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[^\x00]*$")] = ""
    race: bool = False


def topic(athlete: int) -> str:
    return TOPIC.format(athlete=athlete)


def blob(upload: str) -> str:
    return f"strides/uploads/{upload}"


@part.action("/athletes/{athlete}/files", max_body=LARGEST_FORM)
def send_files(athlete: int, form: FileForm, files: list[Upload]) -> str:
    """Keep what was sent; jobs take it in."""
    find(athlete)
    zone_of(form.zone)
    if not files:
        raise UsageError("Choose a file first")
    rows = [_row(athlete, form, each) for each in files]
    for row, each in zip(rows, files, strict=True):
        part.app.blobs.put(blob(row["id"]), each.open(), ttl=KEPT)
    with part.app.transaction() as tx:
        if not tx.read("select id from strides_athlete where id = :id", id=athlete):
            raise NotFound(f"there is no athlete {athlete} any more")
        tx.write(ADD, rows=rows)
        for row in rows:
            # One at a time of an athlete: two recordings of one run must see each other.
            tx.enqueue(take_in.using(serial=f"strides.files:{athlete}"), row["id"])
        tx.touch(topic(athlete))
    return f"{files[0].name} is taken in" if len(files) == 1 else f"{len(files)} files are taken in"


def _row(athlete: int, form: FileForm, file: Upload) -> dict[str, Any]:
    return {
        "id": secrets.token_hex(8),
        "athlete": athlete,
        "sent": part.app.now(),
        "name": file.name,
        "size": file.size,
        "zone": form.zone,
        "race": int(form.race),
    }


@part.task(queue="strides", timeout="10m", retries=3)
def take_in(run: Run, upload: str) -> None:
    """Store what a file holds, or say why not: its recordings and its row are one commit."""
    run.enqueue(forget, upload)
    rows = run.read("select * from strides_upload where id = :id", id=upload)
    if not rows:
        # The athlete has left.
        return
    row = rows[0]
    run.touch(topic(row.athlete_id))
    content = part.app.blobs.get(blob(upload))
    if content is None:
        run.write(REFUSED, id=upload, reason=GONE)
        return
    try:
        found = store.read(
            row.name,
            content,
            zone=row.zone,
            race=bool(row.race),
            tell=lambda n, of: tell(row, n, of),
        )
    except FileRefused as why:
        run.write(REFUSED, id=upload, reason=str(why))
        return
    run.commit(lambda tx: _store(tx, row, found))


def tell(row: Any, done: int, total: int) -> None:
    """How far a large archive is, on its page."""
    if done % EVERY == 0 and done:
        with part.app.transaction() as tx:
            tx.write(
                "update strides_upload set done = :done, total = :total where id = :id",
                id=row.id,
                done=done,
                total=total,
            )
            tx.touch(topic(row.athlete_id))


def _store(tx: Transaction, row: Any, found: store.Ready) -> None:
    old = part.app.now() - settings().keep * DAY_MS
    if not tx.read("select id from strides_upload where id = :id", id=row.id):
        return
    taken = store.put(tx, row.athlete_id, found)
    first = list(taken.left_out.items())[:REASONS]
    tx.write(
        TAKEN,
        id=row.id,
        added=taken.added,
        there_already=taken.there_already,
        races=taken.races,
        left_out=len(taken.left_out),
        reasons=msgspec.json.encode(first).decode(),
    )
    tx.write("delete from strides_upload where sent < :old and status <> 'waiting'", old=old)


@take_in.settled
def note(tx: Transaction, job: Job[Any], outcome: str) -> None:
    """A job that could not be done leaves no file that waits for ever."""
    if outcome == "done":
        return
    why = (job.error or outcome).partition("\n")[0]
    upload = job.arguments["upload"]
    tx.write(REFUSED, id=upload, reason=f"it could not be taken in ({why}); send it again")
    for row in tx.read("select athlete_id from strides_upload where id = :id", id=upload):
        tx.touch(topic(row.athlete_id))


@part.task(queue="strides", retries=3)
def forget(upload: str) -> None:
    """The content is not needed any more."""
    part.app.blobs.delete(blob(upload))


class Shown(msgspec.Struct, frozen=True):
    """A file, as the page shows it."""

    row: Any
    reasons: list[tuple[str, str]]

    @property
    def more(self) -> int:
        """How many were left out that are not listed."""
        return int(self.row.left_out) - len(self.reasons)


def latest(athlete: int) -> list[Shown]:
    """The last files of an athlete, newest first."""
    rows = part.app.read(
        "select * from strides_upload where athlete_id = :id order by sent desc, id limit :n",
        id=athlete,
        n=SHOWN,
    )
    kind = list[tuple[str, str]]
    return [Shown(row, msgspec.json.decode(row.reasons, type=kind)) for row in rows]
