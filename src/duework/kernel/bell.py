"""The doorbell between processes that share a SQLite file.

Each worker binds a Unix datagram socket in a private folder named after the database's inode; whoever
enqueues rings them all, or hands the job over to one that has offered to take it. Ringing is a hint: a
worker that misses it finds out by `data_version`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from pathlib import Path

from duework.clock import monotonic
from duework.kernel.job import LaneName
from duework.kernel.ledger import runtime_folder
from duework.kernel.offers import SUFFIX, Offer, Seen, Terms, datagrams

# How soon a new worker is heard of; until then it looks for itself.
LOOK_SECONDS = 0.05
# How often the folder is looked at after a change.
SURE = 2
RING = b"1"


class Bell:
    """Rings the workers of one database file, and lets one of them listen."""

    def __init__(self, inode: tuple[int, int]) -> None:
        name = hashlib.sha256(repr(inode).encode()).hexdigest()[:16]
        self._folder: Path | None = None
        with contextlib.suppress(OSError):
            self._folder = runtime_folder() / name
        self._sender: socket.socket | None = None
        # Where the workers of this process listen.
        self._mine: dict[int, str] = {}
        # When the folder was last changed, and how often it was looked at since then.
        self._changed = self._sure = 0
        self._look_at = 0.0
        self._others: list[str] = []
        self._offers: dict[str, Seen] = {}

    def listen(self, worker: int) -> socket.socket | None:
        """A socket that becomes readable when somebody rings; None if there can be none."""
        if self._folder is None:
            return None
        listener = datagrams()
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            path = str(self._folder / f"{worker:x}")
            listener.bind(path)
        except OSError:
            listener.close()
            return None
        self._mine[worker] = path
        return listener

    def offer(self, worker: int) -> Offer | None:
        """An offer for a worker that listens; None if there can be none."""
        if worker in self._mine:
            with contextlib.suppress(OSError):
                return Offer(Path(self._mine[worker] + SUFFIX))
        return None

    def leave(self, worker: int) -> None:
        """It listens no more."""
        if (path := self._mine.pop(worker, None)) is not None:
            with contextlib.suppress(OSError):
                Path(path).unlink()
                Path(path).parent.rmdir()

    def close(self) -> None:
        for worker in list(self._mine):
            self.leave(worker)
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()
        self._forget()

    def ring(self) -> None:
        """Wake every other worker of this file."""
        self._look_for_others()
        for path in self._others:
            self._send(path)

    def offered(self, lane: LaneName) -> tuple[Seen, int, Terms] | None:
        """The offer of another worker to start such a job at once; under the database's write lock."""
        if (found := self._standing(lane)) is None:
            # One that is known already is good enough.
            self._look_for_others()
            found = self._standing(lane)
        return found

    def _standing(self, lane: LaneName) -> tuple[Seen, int, Terms] | None:
        for seen in self._offers.values():
            if (found := seen.offered(lane)) is not None and seen.is_held():
                return seen, *found
        return None

    def announce(self, taken: Seen, message: bytes) -> None:
        """Tell the worker what is about to be claimed for it; it can do without."""
        with contextlib.suppress(OSError):
            taken.send(message)

    def hand_over(self, taken: Seen, message: bytes) -> None:
        """Tell the worker that it was claimed; one that is not told looks when it is rung."""
        try:
            taken.send(message)
        except OSError:
            self.ring()

    def take_down(self, worker: int) -> None:
        """Let nobody claim for a dead worker any more."""
        if self._folder is not None:
            self._clear_up(str(self._folder / f"{worker:x}"))

    def _send(self, path: str) -> None:
        try:
            if self._sender is None:
                self._sender = datagrams()
            self._sender.sendto(RING, path)
        except ConnectionRefusedError:
            # Its worker was killed and could not clear up.
            self._clear_up(path)
        except OSError:
            pass

    def _clear_up(self, path: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            Seen(path + SUFFIX).take_down()
        with contextlib.suppress(OSError):
            Path(path).unlink()

    def _look_for_others(self) -> None:
        if self._folder is None or (time := monotonic()) < self._look_at:
            return
        self._look_at = time + LOOK_SECONDS
        try:
            changed = os.stat(self._folder).st_mtime_ns
            # Twice, since what changes in the same tick of the file system leaves the same time.
            if changed != self._changed or self._sure < SURE:
                self._sure = self._sure + 1 if changed == self._changed else 1
                self._changed = changed
                paths = [str(self._folder / each) for each in os.listdir(self._folder)]
                offers = {path for path in paths if path.endswith(SUFFIX)}
                mine = self._mine.values()
                self._others = [path for path in paths if path not in mine and path not in offers]
                self._offers = self._look_at_offers(offers)
        except OSError:
            self._forget()

    def _forget(self) -> None:
        self._others, self._offers, self._changed = [], {}, 0

    def _look_at_offers(self, paths: set[str]) -> dict[str, Seen]:
        """Those of before are left as they are: another thread may use them."""
        found = {path: seen for path, seen in self._offers.items() if path in paths}
        for path in paths.difference(found):
            # One that has just been made is empty, and seen next time.
            with contextlib.suppress(OSError, ValueError):
                found[path] = Seen(path)
        return found
