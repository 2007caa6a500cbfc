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
from duework.kernel.offers import SUFFIX, Offer, Seen, Terms

# How soon a new worker is heard of; until then it looks for itself.
LOOK_SECONDS = 0.05
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
        self._mine: str | None = None
        # When the folder was last changed, and how often it was looked at since then.
        self._seen = self._sure = 0
        self._look_at = 0.0
        self._others: list[str] = []
        self._offers: dict[str, Seen] = {}

    def listen(self, worker: int) -> socket.socket | None:
        """A socket that becomes readable when somebody rings; None if there can be none."""
        if self._folder is None:
            return None
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            path = str(self._folder / f"{worker:x}")
            listener.bind(path)
        except OSError:
            listener.close()
            return None
        self._mine = path
        return listener

    def offer(self) -> Offer | None:
        """An offer for the worker that listens; None if there can be none."""
        if self._mine is None:
            return None
        with contextlib.suppress(OSError):
            return Offer(Path(self._mine + SUFFIX))
        return None

    def close(self) -> None:
        if self._mine is not None:
            with contextlib.suppress(OSError):
                Path(self._mine).unlink()
                Path(self._mine).parent.rmdir()
            self._mine = None
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        self._offers, self._seen = {}, 0

    def ring(self) -> None:
        """Wake every other worker of this file."""
        self._look_for_others()
        for path in self._others:
            self._send(path, RING)

    def offered(self, lane: LaneName) -> tuple[Seen, Terms] | None:
        """The offer of another worker to start such a job at once; under the database's write lock."""
        self._look_for_others()
        for seen in self._offers.values():
            if (terms := seen.terms_for(lane)) is not None:
                return seen, terms
        return None

    def hand_over(self, taken: Seen, message: bytes) -> None:
        """Tell the worker what was claimed for it; one that is not told looks when it is rung."""
        if not self._send(taken.address, message):
            self.ring()

    def take_down(self, worker: int) -> None:
        """Let nobody claim for a dead worker any more."""
        if self._folder is not None:
            self._clear_up(str(self._folder / f"{worker:x}"))

    def _send(self, path: str, message: bytes) -> bool:
        if self._sender is None:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._sender.sendto(message, path)
        except ConnectionRefusedError:
            # Its worker was killed and could not clear up.
            self._clear_up(path)
        except OSError:
            return False
        else:
            return True
        return False

    def _clear_up(self, path: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            Seen(path + SUFFIX).take_down()
        with contextlib.suppress(OSError):
            Path(path).unlink()

    def _look_for_others(self) -> None:
        if self._folder is None or (time := monotonic()) < self._look_at:
            return
        self._look_at = time + LOOK_SECONDS
        with contextlib.suppress(OSError):
            changed = os.stat(self._folder).st_mtime_ns
            # Twice, since what changes in the same tick of the file system leaves the same time.
            if changed != self._seen or self._sure < SURE:
                self._sure = self._sure + 1 if changed == self._seen else 1
                self._seen = changed
                paths = [str(self._folder / each) for each in os.listdir(self._folder)]
                offers = {path for path in paths if path.endswith(SUFFIX)}
                self._others = [path for path in paths if path != self._mine and path not in offers]
                self._offers = self._look_at_offers(offers)

    def _look_at_offers(self, paths: set[str]) -> dict[str, Seen]:
        """Those of before are left as they are: another thread may use them."""
        found = {path: seen for path, seen in self._offers.items() if path in paths}
        for path in paths.difference(found):
            # One that has just been made is empty, and seen next time.
            with contextlib.suppress(OSError, ValueError):
                found[path] = Seen(path)
        return found
