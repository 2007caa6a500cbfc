"""The doorbell between processes that share a SQLite file.

Each worker binds a Unix datagram socket in a private folder named after the database's inode; an enqueue
rings them all. Ringing is a hint: a worker that misses it finds out by `data_version`. The same sockets
carry other messages of `worker/handoff/`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from duework.clock import monotonic
from duework.worker.started import runtime_folder

# How soon a new worker is rung; until then it looks for itself.
LOOK_SECONDS = 0.05
# How often the folder is looked at after a change.
SURE = 2
RING = b"1"
# What is read of a datagram.
MESSAGE_LIMIT = 64 * 1024


class Doorbell:
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
        # Called with the address of a worker that is dead, before its socket's file goes.
        self.on_clear_up: Callable[[str], None] = lambda _: None

    def listen(self, worker: int) -> socket.socket | None:
        """A socket that becomes readable when another process rings; None if there can be none."""
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
        self._mine[worker] = path
        return listener

    def address(self, worker: int) -> str | None:
        """Where a worker of this process listens."""
        return self._mine.get(worker)

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
        for path in self.others():
            self.send(path, RING)

    def take_down(self, worker: int) -> None:
        """A worker is dead: what it has left goes."""
        if self._folder is not None:
            self._clear_up(str(self._folder / f"{worker:x}"))

    def listens(self, path: str) -> bool:
        """Whether a process has this socket open, and not only left its file."""
        return self._reached(path, lambda sender: sender.connect(path))

    def send(self, path: str, message: bytes) -> bool:
        """Send a worker something; False if it was not reached."""
        return self._reached(path, lambda sender: sender.sendto(message, path))

    def _reached(self, path: str, how: Callable[[socket.socket], object]) -> bool:
        try:
            sender = self._sender
            if sender is None:
                sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
                self._sender = sender
            how(sender)
        except OSError as error:
            if isinstance(error, ConnectionRefusedError):
                # Its worker was killed and could not clear up.
                self._clear_up(path)
            return False
        return True

    def _clear_up(self, path: str) -> None:
        self.on_clear_up(path)
        with contextlib.suppress(OSError):
            Path(path).unlink()

    def others(self) -> Sequence[str]:
        """Where the workers of other processes listen; a new list whenever the folder was read."""
        if self._folder is None or (time := monotonic()) < self._look_at:
            return self._others
        self._look_at = time + LOOK_SECONDS
        try:
            changed = os.stat(self._folder).st_mtime_ns
            # Twice, since what changes in the same tick of the file system leaves the same time.
            if changed != self._changed or self._sure < SURE:
                self._sure = self._sure + 1 if changed == self._changed else 1
                self._changed = changed
                # A name with a dot is a file that lies beside a socket.
                names = [name for name in os.listdir(self._folder) if "." not in name]
                paths = [str(self._folder / name) for name in names]
                self._others = [path for path in paths if path not in self._mine.values()]
        except OSError:
            self._forget()
        return self._others

    def _forget(self) -> None:
        self._others, self._changed = [], 0
