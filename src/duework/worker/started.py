"""What a process has started and not finished, where a survivor can read it after `kill -9`.

A small file in memory shared with the kernel of the system: one number per running attempt, written
when it starts and cleared when it ends, and negative while it is about to send and nothing has left. It
survives the process, not the machine, which is all that is asked of it: a crash is charged to the attempts
that were running, and to no other that was claimed.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import struct
import tempfile
from pathlib import Path

_NUMBER = struct.Struct("<q")
_SIZE = _NUMBER.size


def runtime_folder() -> Path:
    """A folder of this user's own for sockets and started jobs; `OSError` if another user owns it."""
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    folder = Path(base) / f"duework-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One look: between two of them another user could put a link in its place.
    seen = folder.lstat()
    if seen.st_uid != os.getuid() or not stat.S_ISDIR(seen.st_mode):
        raise OSError(f"{folder} belongs to another user, or is no folder")
    return folder


def make_shared(path: Path, size: int) -> mmap.mmap:
    """A new file of zeros in memory that other processes of this user can map, too."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags, 0o600)
    try:
        # Written, since a process that touches a hole when there is no more memory is killed.
        if os.write(handle, bytes(size)) == size:
            return mmap.mmap(handle, size)
        raise OSError(errno.ENOSPC, f"{path} does not fit")
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(handle)


def _path(worker: int) -> Path:
    return runtime_folder() / f"{worker:x}.started"


class StartedJobs:
    """The running attempts of one worker; one that is not opened notes nothing."""

    def __init__(self, slots: int) -> None:
        # Place 0 says that there was no place for one of them.
        self._free = list(range(slots, 0, -1))
        self._map: mmap.mmap | None = None
        self._numbers: memoryview | None = None
        self._file: Path | None = None
        self._size = (slots + 1) * _SIZE

    def open(self, worker: int) -> None:
        """From now on others can read it; without a place for it, they know nothing."""
        with contextlib.suppress(OSError):
            path = _path(worker)
            self._map = make_shared(path, self._size)
            self._numbers = memoryview(self._map).cast("q")
            self._file = path

    def start(self, job: int) -> int:
        """Note that it runs; returns the place to give to `finish`, 0 if it got none."""
        if self._numbers is None:
            return 0
        if not self._free:
            # More attempts than slots, by ones that would not stop: it is incomplete from now on.
            self._numbers[0] = 1
            return 0
        place = self._free.pop()
        self._numbers[place] = job
        return place

    def sign(self, place: int, job: int, sign: int) -> None:
        """Note of one that sends whether anything has left; from any thread, and late calls do nothing."""
        if place and self._numbers is not None and abs(self._numbers[place]) == job:
            self._numbers[place] = sign * job

    def finish(self, place: int) -> None:
        if place and self._numbers is not None:
            self._numbers[place] = 0
            self._free.append(place)

    def close(self) -> None:
        if self._map is not None and self._numbers is not None:
            self._numbers.release()
            self._numbers = None
            self._map.close()
            self._map = None
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def started(worker: int) -> frozenset[int] | None:
    """What a dead worker of this host was running; None if that is not known."""
    numbers = _read(worker)
    return None if not numbers or numbers[0] else frozenset(map(abs, numbers)) - {0}


def unsent(worker: int) -> frozenset[int]:
    """What of that had begun a send of which nothing had left yet."""
    return frozenset(-number for number in _read(worker)[1:] if number < 0)


def _read(worker: int) -> list[int]:
    try:
        raw = _path(worker).read_bytes()
    except OSError:
        return []
    return [number for (number,) in _NUMBER.iter_unpack(raw)]


def forget(worker: int) -> None:
    """Its leases are written off: what it was running is not needed any more."""
    with contextlib.suppress(OSError):
        _path(worker).unlink()
