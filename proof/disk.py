"""A disk that forgets: what was asked of it, and what it may hold after the plug was pulled.

`record` runs some work in a child process over a VFS that passes everything on and notes every create,
write, truncate, sync and delete in order, and every answer that was given to a caller. `Disk` follows such
a trace and makes images of the files under a model of what the hardware had kept:

  drop     what was not synced is gone
  keep     everything issued so far is there (as after `kill -9`)
  prefix   of each file, the first few of its writes that were not synced
  subset   any of them, in any order, each torn at sectors of 512 bytes
  garbage  the same, and a sector in flight may hold anything

A file that was created or deleted is certain to be so only after its folder was synced. SQLite syncs the
folder with the first sync of a journal or log that it has created.
"""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
MODELS = ("drop", "keep", "prefix", "subset", "garbage")
# These two leave nothing to chance.
CERTAIN = ("drop", "keep")

# What was asked and of which file: create, write with an offset and bytes, truncate with a size, sync,
# delete; folder, which is a sync of it; and ack with what was answered.
Event = tuple[Any, ...]


def record(home: Path, work: Callable[[Callable[..., None]], None]) -> list[Event]:
    """What a child process asks of its disk while it does `work(ack)`."""
    out = home / "trace"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            trace: list[Event] = []
            _vfs = RecordingVfs(trace)
            _note_writes(trace)
            work(lambda *fact: trace.append(("ack", *fact)))
            out.write_bytes(pickle.dumps(trace))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the recorded process failed with status {status}")
    trace = pickle.loads(out.read_bytes())  # noqa: S301 - our own child wrote it
    out.unlink()
    return trace


def _note_writes(trace: list[Event]) -> None:
    """Also what the engine writes by itself."""
    real = os.pwrite

    def pwrite(handle: int, data: bytes, offset: int) -> int:
        count = real(handle, data, offset)
        name = Path(os.readlink(f"/proc/self/fd/{handle}")).name
        trace.append(("write", name, offset, bytes(data[:count])))
        return count

    setattr(os, "pwrite", pwrite)  # noqa: B010 - a function is replaced


class RecordingVfs(apsw.VFS):
    """The system's own VFS, with a note of everything that changes a file; the default from now on."""

    def __init__(self, trace: list[Event]) -> None:
        self._trace = trace
        super().__init__("duework-disk", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return RecordedFile(self._trace, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - SQLite's name
        super().xDelete(filename, syncdir)
        self._trace.append(("delete", Path(filename).name))
        if syncdir:
            self._trace.append(("folder",))


class RecordedFile(apsw.VFSFile):
    """One open file."""

    def __init__(self, trace: list[Event], name: Any, flags: list[int]) -> None:
        self._trace = trace
        path = name if isinstance(name, str) else name.filename()
        self._name = Path(path).name
        # The engine makes an empty file itself before SQLite opens it.
        if not os.path.exists(path) or not os.path.getsize(path):
            trace.append(("create", self._name))
        logs = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
        self._syncs_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & logs)
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._trace.append(("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._trace.append(("truncate", self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        super().xSync(flags)
        self._trace.append(("sync", self._name))
        if self._syncs_folder:
            self._syncs_folder = False
            self._trace.append(("folder",))


class Disk:
    """Follows a trace: what is certainly there, and what was only asked for."""

    def __init__(self) -> None:
        self._certain: dict[str, bytearray] = {}
        self._pending: dict[str, list[Event]] = {}
        # Files whose creation, or whose deletion, the folder may not know of yet.
        self._unlinked: set[str] = set()
        self._deleted: dict[str, tuple[bytearray, list[Event]]] = {}

    def feed(self, event: Event) -> None:
        match event:
            case ("create", name):
                if name not in self._certain:
                    self._certain[name], self._pending[name] = bytearray(), []
                    self._unlinked.add(name)
            case ("write" | "truncate", name, *_):
                self._pending[name].append(event)
            case ("sync", name):
                for each in self._pending[name]:
                    _apply(self._certain[name], each)
                self._pending[name] = []
            case ("delete", name):
                self._deleted[name] = self._certain.pop(name), self._pending.pop(name)
                self._unlinked.discard(name)
            case ("folder",):
                self._deleted.clear()
                self._unlinked.clear()

    def image(self, model: str, chance: random.Random) -> dict[str, bytes]:
        """The files as they may be found when the power is back."""
        found = {name: (data, self._pending[name]) for name, data in self._certain.items()}
        if model != "keep":
            for name in self._unlinked:
                if model == "drop" or chance.random() < 0.5:
                    del found[name]
            for name, old in self._deleted.items():
                if name not in found and (model == "drop" or chance.random() < 0.5):
                    found[name] = old
        return {
            name: _after(model, data, pending, chance) for name, (data, pending) in found.items()
        }


def _after(model: str, data: bytearray, pending: list[Event], chance: random.Random) -> bytes:
    made = bytearray(data)
    if model == "keep":
        chosen = pending
    elif model == "prefix":
        chosen = pending[: chance.randint(0, len(pending))]
    elif model == "drop":
        chosen = []
    else:
        chosen = [each for each in pending if chance.random() < 0.6]
        chance.shuffle(chosen)
        for each in chosen:
            _apply_torn(made, each, chance, garbage=model == "garbage")
        return bytes(made)
    for each in chosen:
        _apply(made, each)
    return bytes(made)


def _apply(data: bytearray, event: Event) -> None:
    if event[0] == "truncate":
        size = event[2]
        if size < len(data):
            del data[size:]
        else:
            data.extend(bytes(size - len(data)))
        return
    _, _, offset, written = event
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(written)] = written


def _apply_torn(data: bytearray, event: Event, chance: random.Random, *, garbage: bool) -> None:
    if event[0] == "truncate":
        _apply(data, event)
        return
    _, name, offset, written = event
    for start in range(0, len(written), SECTOR):
        sector = written[start : start + SECTOR]
        drawn = chance.random()
        if drawn < 0.5:
            _apply(data, ("write", name, offset + start, sector))
        elif garbage and drawn < 0.75:
            _apply(data, ("write", name, offset + start, chance.randbytes(len(sector))))
