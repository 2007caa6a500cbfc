"""What a worker with nothing to do offers to the other processes of its host: to claim for it.

In its own process a worker leaves an errand with the writer. To others it shows an offer, in a small file
that they map: which tasks it would start at once. Whoever enqueues one of them writes the job as one that
this worker holds, announces it by the worker's doorbell, commits, and hands it over. It starts after one
fsync, with no more SQL, and the worker gets ready meanwhile.

An offer is taken once, by whoever has the database's write lock, by writing its number and the job's id
beside it. A worker that finds its offer taken and was handed nothing looks for that job: whoever took it may
have died. Nothing is claimed for a worker whose row is not there: others know it, and see it die.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket
import weakref
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import msgspec

from duework.kernel.claim import Want
from duework.kernel.job import Claimed, LaneName
from duework.kernel.ledger import make_shared

SUFFIX = ".offer"
SIZE = 64 * 1024
# The longest payload that is handed over, and what is read of a datagram.
PAYLOAD_LIMIT = 8 * 1024
MESSAGE_LIMIT = 8 * PAYLOAD_LIMIT
# How many offers later a job may still be handed over.
REMEMBERED = 1000

# The file begins with numbers: which offer stands (0: none), which was taken last, and for which job; the
# edition of the terms, their length and checksum. Then come the terms.
_STANDING, _TAKEN, _JOB, _EDITION, _LENGTH, _CHECKSUM = range(6)
_HEAD = 64


class Terms(msgspec.Struct, frozen=True):
    """What a worker offers: to start jobs for which it needs nothing but a free slot, and has one."""

    worker: int
    lease_ms: int
    tasks: frozenset[str]
    # Only these queues, or all but those.
    queues: frozenset[str] | None
    other_queues: frozenset[str]

    def include(self, lane: LaneName) -> bool:
        if lane.task not in self.tasks or lane.alone or lane.queue in self.other_queues:
            return False
        return self.queues is None or lane.queue in self.queues


class Handed(msgspec.Struct, frozen=True, array_like=True):
    """A job that is claimed for a worker, and the offer that it answers.

    It is announced as a whole before the commit, and handed over by its id after it.
    """

    number: int
    job: Claimed | int


_terms = msgspec.msgpack.Decoder(Terms)
_handed = msgspec.msgpack.Decoder(Handed)
_encode = msgspec.msgpack.Encoder().encode


class Offer:
    """A worker's own: it stands while the worker rests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._map = make_shared(path, SIZE)
        try:
            handle = os.open(path, os.O_RDWR)
            self._let_go = weakref.finalize(self, os.close, handle)
            # Until this process ends, by which others know that it has not.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            path.unlink()
            raise
        self._words = memoryview(self._map)[:_HEAD].cast("Q")
        self._number = 0
        self._terms: Terms | None = None
        # Whether it was shown, and not withdrawn.
        self._standing = False
        # The last ones that were answered, in order: no job is begun twice.
        self._answered: dict[int, None] = {0: None}
        # Jobs that were not handed over while somebody waited for them, by the number of the offer.
        self._late: dict[int, int] = {}
        # What somebody was about to commit when he last told of it.
        self._announced: tuple[int, Claimed] | None = None

    def show(self, want: Want) -> None:
        """Let others take it, from now on."""
        terms = _offered(want)
        if terms != self._terms:
            self._terms = None
            if not self._write(_encode(terms)):
                return
            self._terms = terms
        self._number += 1
        self._standing = True
        self._words[_STANDING] = self._number

    def withdraw(self) -> None:
        """Let nobody take it any more."""
        self._standing = False
        self._words[_STANDING] = 0
        # Remembered, since the next one is taken in its place.
        self._late = self.owed()

    def receive(self, message: bytes | bytearray) -> tuple[Claimed, int | None] | None:
        """A job, and the offer that it answers if it is committed.

        None if it has to be looked for, or is known already.
        """
        try:
            handed = _handed.decode(message)
        except ValueError:
            return None
        number, job = handed.number, handed.job
        if not self._is_open(number):
            return None
        if number != self._number or not self._standing:
            # Nobody waits for it any more, and the next one may be taken before this one is seen.
            self._late[number] = job.id if isinstance(job, Claimed) else job
            return None
        if isinstance(job, Claimed):
            self._announced = number, job
            return job, None
        announced, self._announced = self._announced, None
        if announced is not None and announced[0] == number:
            return announced[1], number
        self._late[number] = job
        return None

    def owed(self) -> dict[int, int]:
        """What was claimed for us and not handed over in time: job by offer.

        It is sure if whoever asks has had the database's write lock since the offer was withdrawn.
        """
        owed = dict(self._late)
        if self._is_open(taken := self._words[_TAKEN]):
            owed[taken] = self._words[_JOB]
        return owed

    def answer(self, numbers: Iterable[int]) -> None:
        """What these brought was begun, or was looked for."""
        for number in numbers:
            self._answered[number] = None
            self._late.pop(number, None)
        while len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]

    def _is_open(self, number: int) -> bool:
        return number not in self._answered and number > next(iter(self._answered))

    def close(self) -> None:
        self._words[_STANDING] = 0
        self._let_go()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _write(self, terms: bytes) -> bool:
        if len(terms) > SIZE - _HEAD:
            return False
        # Nobody reads them now, except who has just seen the offer stand: the checksum tells.
        self._map[_HEAD : _HEAD + len(terms)] = terms
        self._words[_LENGTH], self._words[_CHECKSUM] = len(terms), crc32(terms)
        self._words[_EDITION] += 1
        return True


def datagrams() -> socket.socket:
    """A socket of the kind that doorbells are."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


def _offered(want: Want) -> Terms:
    tasks, queues = want.paces
    free = (task for task, pool in want.pools.items() if want.free.get(pool, 0) > 0)
    return Terms(
        want.worker,
        want.lease_ms,
        frozenset(task for task in free if task not in want.task_limits and task not in tasks),
        want.queues,
        frozenset([*want.queue_limits, *queues]),
    )


class Seen:
    """The offer of another worker, as one sees it who enqueues."""

    def __init__(self, path: str) -> None:
        self._path = path
        # Where its worker listens.
        self.address = path.removesuffix(SUFFIX)
        self._handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        weakref.finalize(self, os.close, self._handle)
        self._map = mmap.mmap(self._handle, SIZE)
        self._line: socket.socket | None = None
        self._words = memoryview(self._map)[:_HEAD].cast("Q")
        self._edition = 0
        self._terms: Terms | None = None

    def offered(self, lane: LaneName) -> tuple[int, Terms] | None:
        """Its number and its terms, if it stands, nobody has taken it, and it is about such jobs.

        For somebody who has the database's write lock.
        """
        words = self._words
        number = words[_STANDING]
        if number in (0, words[_TAKEN]):
            return None
        if words[_EDITION] != self._edition:
            self._read()
        terms = self._terms
        return (number, terms) if terms is not None and terms.include(lane) else None

    def take(self, number: int, job: Claimed) -> tuple[bytes, bytes]:
        """Nobody else takes it now; what to announce, and what to hand over."""
        messages = _encode(Handed(number, job)), _encode(Handed(number, job.id))
        self._words[_JOB] = job.id
        self._words[_TAKEN] = number
        return messages

    def is_held(self) -> bool:
        """Whether there is somebody behind it, and not only what he has left."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        fcntl.flock(self._handle, fcntl.LOCK_UN)
        return False

    def send(self, message: bytes) -> None:
        """Hand it over; `OSError` if nobody takes it."""
        if self._line is None:
            line = datagrams()
            try:
                # Once: a way that is known is shorter than one by its name.
                line.connect(self.address)
            except OSError:
                line.close()
                raise
            weakref.finalize(self, line.close)
            self._line = line
        self._line.send(message)

    def take_down(self) -> None:
        """Its worker is dead."""
        self._words[_STANDING] = 0
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _read(self) -> None:
        edition, length = self._words[_EDITION], self._words[_LENGTH]
        terms = self._map[_HEAD : _HEAD + length]
        self._edition, self._terms = 0, None
        if crc32(terms) == self._words[_CHECKSUM]:
            with contextlib.suppress(ValueError):
                self._terms = _terms.decode(terms)
                self._edition = edition
