"""What must be known of a database file before and while SQLite has it open.

Which file it is, and which log a connection has beside it (a deleted or replaced one is noticed by its
inode), whether its file system can
be trusted with locks, whether this process already has it open through another SQLite library
(closing either would drop the locks of both), and that it is created for its owner's eyes only.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from duework.clock import monotonic, pause
from duework.db.adopted import unwrapped
from duework.db.database import Tx
from duework.errors import Gone, Unavailable, UsageError

NETWORK = re.compile(
    r"^(nfs\d?|cifs|smb\d?|smbfs|9p|virtiofs|afs|ceph|glusterfs|lustre|gpfs|fuse(\..*)?)$"
)

MOUNTS = Path("/proc/self/mountinfo")

# Two changes of a folder may bear the same time if they are no further apart; it is a tenth of that.
TICK_SECONDS = 0.1

FORKED = (
    "{path} was open when this process was forked, in a transaction or by a connection from app.connect(),"
    " and SQLite cannot open it safely in the child: end that before the fork"
)

# Inodes that this process has open through apsw, with a count of Apps each.
_ours: dict[tuple[int, int], int] = {}
_lock = threading.Lock()
_hooked: list[bool] = []
# How long a connection that is busy is asked which files it has open.
BUSY_SECONDS = 2.0
# Connections of the process that this one was forked from; kept, since closing them would touch its files.
_inherited: list[Any] = []


class Identity:
    """The inode that was opened; `check` notices when the path leads elsewhere."""

    def __init__(self, path: Path, inode: tuple[int, int]) -> None:
        self.path = path
        self.inode = inode
        # Asked often: a text is quicker than a path.
        self._name = str(path)

    def check(self) -> None:
        try:
            found = os.stat(self._name)
            there = (found.st_dev, found.st_ino) == self.inode
        except (OSError, ValueError):
            there = False
        if not there:
            message = (
                f"{self.path} was deleted or replaced while it was open: nothing more is written."
                " Put the file back or restore a backup, then start again"
            )
            raise Gone(message)

    def release(self) -> None:
        with _lock:
            _ours[self.inode] = _ours.get(self.inode, 1) - 1
            if _ours[self.inode] <= 0:
                del _ours[self.inode]


class Beside:
    """A database with its log and the log's index, as one connection has them open.

    SQLite removes the two when the last connection closes. If another part of this process has closed the
    database past us (a connection of another SQLite library, a plain `open`), the system has dropped our
    locks, and the last connection of another process takes itself for the last of all. What is then written
    here is not found by others, and what others write is not seen here.
    """

    def __init__(
        self, identity: Identity, database: str, log: str, *, believe: bool = True
    ) -> None:
        self._identity = identity
        self._log = log
        # Until the first transaction of a new file there are none.
        self._inodes = {name: inode_of(name) for name in (log, f"{database}-shm")}
        self._folder = os.path.dirname(log)
        # Whether a folder in which nothing has changed holds what it held before.
        self._believe = believe and inode_of(self._folder) == inode_of(identity.path.parent)
        self._stamp: tuple[int, ...] | None = None
        self._seen_at = 0.0
        self._sure = False

    def check(self) -> None:
        """`Gone` unless all are still there: asked under the write lock, and before a commit is answered."""
        stamp = _stamp(self._folder)
        if self._sure and stamp == self._stamp:
            return
        self._identity.check()
        self._compare()
        if stamp != self._stamp or stamp is None:
            self._stamp, self._seen_at, self._sure = stamp, monotonic(), False
        elif monotonic() - self._seen_at > TICK_SECONDS:
            self._sure = self._believe

    def _compare(self) -> None:
        for name, inode in self._inodes.items():
            found = inode_of(name)
            if inode is None:
                self._inodes[name] = found
            elif found != inode:
                message = (
                    f"{name} was deleted or replaced while it was open: nothing more is written. Either"
                    " it was removed by hand, or something in this process has opened the database past"
                    " Duework (ATTACH, open(), another SQLite library): find out, then start again"
                )
                raise Gone(message)

    def replaced(self) -> bool:
        """Whether another process has a log of its own by now."""
        return inode_of(self._log) not in {None, self._inodes[self._log]}


def _stamp(folder: str) -> tuple[int, ...] | None:
    """What changes whenever a file of the folder is made, renamed or removed."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino, found.st_dev


def claim(path: Path, *, force: bool, mounts: Path = MOUNTS) -> Identity:
    """Make sure that the file may be opened here, create it if need be, and remember it."""
    if not force and (kind := filesystem(path.parent, mounts)) and NETWORK.match(kind):
        message = (
            f"{path} is on a network file system ({kind}), where SQLite's locks cannot be trusted:"
            " use a local disk or a postgresql:// URL (or add ?network=force to the URL)"
        )
        raise UsageError(message)
    if not path.exists():
        create(path)
    inode = inode_of(path)
    if inode is None:
        raise Unavailable(explain(path, OSError("there is no such file")))
    with _lock:
        opened = 0 if inode in _ours else handles(inode)
        if opened and opened > _by_apsw(inode):
            if _inherited:
                raise UsageError(FORKED.format(path=path))
            message = (
                f"{path} is already open in this process through another SQLite library, and two of"
                " them on one file corrupt it: close that connection first and use app.connect(), or"
                " enqueue in its transaction by task.using(connection=…) and leave the rest to others"
            )
            raise UsageError(message)
        _ours[inode] = _ours.get(inode, 0) + 1
        if not _hooked:
            sys.addaudithook(_audit)
            _hooked.append(True)
    return Identity(path, inode)


def begin_anew() -> None:
    """In the child of a fork: nothing is open here, and what the parent had open is not to be used."""
    global _lock  # noqa: PLW0603 - it may have been held by a thread that is not here
    import apsw

    _lock = threading.Lock()
    _ours.clear()
    _inherited.extend(apsw.connections())


def create(path: Path) -> None:
    """An empty file that only its owner can read; never through a link of another user."""
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        if path.is_symlink() and not path.exists():
            raise Unavailable(f"{path} is a link that leads nowhere") from None
    except OSError as error:
        raise Unavailable(explain(path, error)) from error


def explain(path: Path, error: Exception) -> str:
    """One line that says what is wrong with the path and what to do."""
    folder, user = path.parent, os.geteuid()
    if not folder.is_dir():
        return f"cannot open {path}: the folder {folder} does not exist; create it first"
    if not _writable(folder):
        return (
            f"cannot open {path}: user {user} may not write in {folder}; change its owner or mode"
        )
    if path.is_dir():
        return f"cannot open {path}: it is a folder; name a file in it"
    if path.exists() and not _writable(path):
        return f"cannot open {path}: user {user} may not write it; change its owner or mode"
    return f"cannot open {path}: {error}"


def _writable(path: Path) -> bool:
    try:
        return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    except OSError:
        return False


def inode_of(path: Path | str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def filesystem(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system that holds a folder, where the system can say."""
    best, kind = -1, None
    where = str(folder.resolve())
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split()[4].replace("\\040", " ")
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= best:
            best, kind = len(mount), after.split()[0]
    return kind


def facts(path: Path) -> dict[str, str]:
    """What can be said about a database file without opening it."""
    found = os.stat(path)
    log = Path(f"{path}-wal")
    return {
        "file": str(path),
        "bytes": str(found.st_size),
        "wal_bytes": str(log.stat().st_size if log.exists() else 0),
        "mode": f"{found.st_mode & 0o7777:04o}",
        "filesystem": filesystem(path.parent) or "unknown",
    }


def ballast(path: Path) -> Path:
    """A file of nothing, given up when the disk is full so that running jobs can still settle."""
    return path.with_name(path.name + "-ballast")


def fill_ballast(path: Path, size: int) -> bool:
    """Make the ballast if it is not there; whether there is one. A small disk does without."""
    target = ballast(path)
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(target, flags, 0o600)
    except OSError:
        return False
    try:
        if os.fstat(handle).st_size < size:
            os.posix_fallocate(handle, 0, size)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    finally:
        os.close(handle)
    return True


def handles(inode: tuple[int, int]) -> int:
    """How often this process has the file open, by whatever library."""
    try:
        handles = os.listdir("/proc/self/fd")
    except OSError:
        return 0
    return sum(inode_of(f"/proc/self/fd/{handle}") == inode for handle in handles)


def _by_apsw(inode: tuple[int, int]) -> int:
    """How often by connections of our own SQLite library, which may be the user's."""
    import apsw

    return sum(
        inode_of(file) == inode
        for connection in apsw.connections()
        if not any(connection is parents for parents in _inherited)
        for file in _files_of(connection)
    )


def _files_of(connection: Any) -> list[str]:
    """What it has open. One that runs a statement in another thread cannot say, and is asked again."""
    import apsw

    until = monotonic() + BUSY_SECONDS
    while True:
        try:
            names = [connection.db_filename(name) for name in connection.db_names()]
        except apsw.ThreadingViolationError:
            if monotonic() > until:
                return []
            pause(0.001)
        except apsw.ConnectionClosedError:
            return []
        else:
            return [each for each in names if each]


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse a stdlib connection to a file that is ours, before it can touch the locks."""
    if event != "sqlite3.connect" or not _ours:
        return
    text = os.fsdecode(arguments[0])
    if any(inode_of(Path(each)) in _ours for each in _meant(text)):
        message = (
            f"{text} is open in this process through Duework, and a second SQLite library on one"
            " file corrupts it: use app.connect() for a connection of your own"
        )
        raise UsageError(message)


def _meant(name: str) -> Iterator[str]:
    """The paths that a name given to `sqlite3.connect` may lead to; a URI is one only if asked."""
    if name and name != ":memory:":
        yield name
    if name.startswith("file:"):
        path = re.split("[?#]", name.removeprefix("file:"), maxsplit=1)[0]
        if path.startswith("//"):
            path = "/" + path[2:].partition("/")[2]
        yield unquote(path)


def adopt_stdlib(connection: Any, path: Path) -> Tx:
    """A transaction on a stdlib `sqlite3` connection: only while we have not opened the file."""
    import sqlite3

    from duework.db.sqlite.stdlib import StdlibTx, begin

    wanted = "an apsw or sqlite3 connection here, or a SQLAlchemy or Django one on sqlite3"
    found = unwrapped(connection, sqlite3.Connection, wanted=wanted)
    if inode_of(path) in _ours:
        message = (
            "this process has the database open already, and a sqlite3 connection beside it breaks"
            " the locks: take a connection from app.connect(), use app.transaction(), or let this"
            " process do nothing with the App but enqueue by task.using(connection=…)"
        )
        raise UsageError(message)
    begin(found)
    return StdlibTx(found)
