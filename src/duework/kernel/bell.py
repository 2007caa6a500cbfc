"""The doorbell between processes that share a SQLite file.

Each worker binds a Unix datagram socket in a private folder named after the database's inode; whoever
enqueues rings them all. Ringing is a hint: a worker that misses it finds out by `data_version`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from pathlib import Path

from duework.clock import monotonic
from duework.kernel.ledger import runtime_folder

# How soon a new worker is heard of; until then it looks for itself.
LOOK_SECONDS = 0.05


class Bell:
    """Rings the workers of one database file, and lets one of them listen."""

    def __init__(self, inode: tuple[int, int]) -> None:
        name = hashlib.sha256(repr(inode).encode()).hexdigest()[:16]
        self._folder: Path | None = None
        with contextlib.suppress(OSError):
            self._folder = runtime_folder() / name
        self._sender: socket.socket | None = None
        self._mine: str | None = None
        self._seen = 0
        self._look_at = 0.0
        self._others: list[str] = []

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

    def close(self) -> None:
        if self._mine is not None:
            with contextlib.suppress(OSError):
                Path(self._mine).unlink()
                Path(self._mine).parent.rmdir()
            self._mine = None
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    def ring(self) -> None:
        """Wake every other worker of this file."""
        if self._folder is None:
            return
        if (time := monotonic()) >= self._look_at:
            self._look_at = time + LOOK_SECONDS
            self._look_for_others(self._folder)
        if not self._others:
            return
        if self._sender is None:
            self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        for path in self._others:
            try:
                self._sender.sendto(b"1", path)
            except ConnectionRefusedError:
                # Its worker was killed and could not clear up.
                with contextlib.suppress(OSError):
                    Path(path).unlink()
            except OSError:
                continue

    def _look_for_others(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            changed = os.stat(folder).st_mtime_ns
            if changed != self._seen:
                self._seen = changed
                paths = [str(folder / each) for each in os.listdir(folder)]
                self._others = [path for path in paths if path != self._mine]
