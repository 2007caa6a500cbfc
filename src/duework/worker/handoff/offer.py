"""What a worker with nothing to do offers to the other processes of its host: to claim for it.

In its own process a worker attaches its claim to the next enqueue. To others it shows an offer, in a small
file that they map: which tasks it would start at once. An enqueue of one of them writes the job as one that
this worker holds, and sends it to the worker's socket. It starts after one fsync, with no more SQL.

An offer is taken once, under the database's write lock, by writing its number and the job's id
beside it. A worker that finds its offer taken and was handed nothing looks for that job: the sender may
have died. Nothing is claimed for a worker whose row is not there: others know it, and see it die.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import msgspec

from duework.kernel.claim import ClaimRequest
from duework.kernel.job import Claimed, LaneName
from duework.worker.started import make_shared
from duework.worker.wake.doorbell import MESSAGE_LIMIT

SUFFIX = ".offer"
SIZE = 64 * 1024
# The longest payload that is handed over, in characters: with all else it has to fit into one message.
PAYLOAD_LIMIT = MESSAGE_LIMIT // 8
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
    """A job that was claimed for a worker, and the offer that it answers."""

    number: int
    job: Claimed


_terms = msgspec.msgpack.Decoder(Terms)
_handed = msgspec.msgpack.Decoder(Handed)
_encode = msgspec.msgpack.Encoder().encode


class Offer:
    """A worker's own: it stands while the worker rests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._map = make_shared(path, SIZE)
        self._words = memoryview(self._map)[:_HEAD].cast("Q")
        self._number = 0
        self._terms: Terms | None = None
        # Whether it was shown, and not withdrawn.
        self._standing = False
        # The last ones that were answered, in order: no job is begun twice.
        self._answered: dict[int, None] = {0: None}
        # Jobs that were not handed over while the offer stood, by the number of the offer.
        self._late: dict[int, int] = {}

    def show(self, want: ClaimRequest) -> None:
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
        """It cannot be taken any more."""
        self._standing = False
        self._words[_STANDING] = 0
        # Remembered, since the next one is taken in its place.
        self._late = self.owed()

    def receive(self, message: bytes) -> Handed | None:
        """What answers the offer; None if it has to be looked for, or is known already."""
        try:
            handed = _handed.decode(message)
        except ValueError:
            return None
        if not self._is_open(handed.number):
            return None
        if self._standing and handed.number == self._number:
            return handed
        self._late[handed.number] = handed.job.id
        return None

    def owed(self) -> dict[int, int]:
        """What was claimed for us and not handed over in time: job by offer.

        It is sure if the caller has had the database's write lock since the offer was withdrawn.
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
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _write(self, terms: bytes) -> bool:
        if len(terms) > SIZE - _HEAD:
            return False
        # An enqueue that has just seen the offer stand may read them now: the checksum guards it.
        self._map[_HEAD : _HEAD + len(terms)] = terms
        self._words[_LENGTH], self._words[_CHECKSUM] = len(terms), crc32(terms)
        self._words[_EDITION] += 1
        return True


def _offered(want: ClaimRequest) -> Terms:
    tasks, queues = want.admission.tasks, want.admission.queues
    free = (task for task, pool in want.pools.items() if want.free.get(pool, 0) > 0)
    return Terms(
        want.worker,
        want.lease_ms,
        frozenset(task for task in free if task not in want.task_limits and task not in tasks),
        want.queues,
        frozenset([*want.queue_limits, *queues]),
    )


class ForeignOffer:
    """The offer of another worker, as an enqueue sees it."""

    def __init__(self, path: str) -> None:
        self._path = path
        # Where its worker listens.
        self.address = path.removesuffix(SUFFIX)
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            self._map = mmap.mmap(handle, SIZE)
        finally:
            os.close(handle)
        self._words = memoryview(self._map)[:_HEAD].cast("Q")
        self._edition = 0
        self._terms: Terms | None = None

    def offered(self, lane: LaneName) -> tuple[int, Terms] | None:
        """Its number and its terms, if it stands, is not taken, and is about such jobs.

        Under the database's write lock.
        """
        words = self._words
        number = words[_STANDING]
        if number in (0, words[_TAKEN]):
            return None
        if words[_EDITION] != self._edition:
            self._read()
        terms = self._terms
        return (number, terms) if terms is not None and terms.include(lane) else None

    def take(self, number: int, job: Claimed) -> bytes:
        """It is taken; the message to hand over."""
        message = _encode(Handed(number, job))
        self._words[_JOB] = job.id
        self._words[_TAKEN] = number
        return message

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
