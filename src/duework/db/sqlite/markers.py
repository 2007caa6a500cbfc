"""Markers that groups leave in a SQLite file, by which a commit that failed can be looked for.

Each process has one row with the number of its last group. A group that consists of one new job, claimed
or not, needs none: if the job is there, the group happened.
"""

from __future__ import annotations

import contextlib
import secrets

import apsw

from duework.db.database import NewRow

_TOUCH = """insert into duework_mark (process, number) values (?, ?)
            on conflict (process) do update set number = excluded.number"""
_MARK = "select 1 from duework_mark where process = ? and number = ?"
# Ids of two processes may meet; their payloads too are another matter.
_JOB = "select 1 from duework_job where id = ? and checksum = ?"
_HELD = _JOB + " and worker is not null"


class CommitMarkers:
    """The markers of one process, in one file."""

    def __init__(self) -> None:
        self._process = secrets.randbits(62)
        self._number = 0
        self._left = False
        # The job that is the marker of the last group, if one is.
        self._job: tuple[int, int] | None = None

    def leave(self, connection: apsw.Connection, made: NewRow | None, changes: int) -> None:
        """Leave a marker of the group that is about to be committed; a new job is as good as one."""
        self._number += 1
        self._job = None
        job = None if made is None else (made.id, made.checksum)
        # Among other changes only one that was claimed as well, by a worker that knows of it later.
        if job is not None and changes > 1 and not connection.execute(_HELD, job).fetchone():
            job = None
        self._job = job
        if job is None:
            self._touch(connection)

    def found(self, connection: apsw.Connection) -> bool:
        """Whether the last group happened. Writes: that seals what its commit left in the log."""
        marker = (self._process, self._number)
        what = (_MARK, marker) if self._job is None else (_JOB, self._job)
        found = connection.execute(*what).fetchone() is not None
        self._number += 1
        self._touch(connection)
        return found

    def forget(self, connection: apsw.Connection) -> None:
        """They are not needed any more; where another process writes just now, they stay."""
        with contextlib.suppress(apsw.Error):
            if self._left and not connection.in_transaction:
                connection.pragma("synchronous", "normal")
                connection.execute("delete from duework_mark where process = ?", (self._process,))

    def _touch(self, connection: apsw.Connection) -> None:
        connection.execute(_TOUCH, (self._process, self._number))
        self._left = True
