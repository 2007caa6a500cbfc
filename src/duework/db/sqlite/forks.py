"""A fork, and the files that are open at that moment.

SQLite keeps in memory which locks its process has. A child inherits the memory and not the locks: a
connection that it opens beside one of its parent's takes none, and its log may be removed under it. So no
connection is open across a fork. Before it, those that are idle are closed, and both sides open their own
again when they need one; what was in use then is refused in the child (`files.claim`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import Protocol

from duework.clock import monotonic, pause
from duework.db.sqlite import files
from duework.db.writer.blocks import inside

# How long a fork waits for what is being written or read.
PATIENCE = 1.0
PAUSE = 0.001


class Forkable(Protocol):
    """A database of this process."""

    # Held while something is written, and while a connection is opened: taken in this order.
    busy: threading.Lock
    door: threading.Lock

    def rest(self) -> bool:
        """Close the connections that are idle; whether that is all of them."""


_open: weakref.WeakSet[Forkable] = weakref.WeakSet()
_held: list[threading.Lock] = []
_hooked: list[bool] = []


def follow(database: Forkable) -> None:
    """Have it rest while this process is forked."""
    _open.add(database)
    if not _hooked:
        _hooked.append(True)
        os.register_at_fork(before=_before, after_in_parent=_go_on, after_in_child=_begin_anew)


def _before() -> None:
    # Inside a block one connection is in use until the caller goes on.
    deadline = monotonic() + (0 if inside() else PATIENCE)
    for database in list(_open):
        if _take(database.busy, deadline) and _take(database.door, deadline):
            with contextlib.suppress(Exception):
                while not database.rest() and monotonic() < deadline:
                    pause(PAUSE)


def _take(lock: threading.Lock, deadline: float) -> bool:
    taken = lock.acquire(timeout=max(0, deadline - monotonic()))
    if taken:
        _held.append(lock)
    return taken


def _go_on() -> None:
    while _held:
        _held.pop().release()


def _begin_anew() -> None:
    """The Apps of the parent make themselves new databases here."""
    _held.clear()
    _open.clear()
    files.begin_anew()
