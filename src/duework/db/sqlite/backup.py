"""A copy of a SQLite database while it is in use.

By SQLite's own backup interface: a plain file copy would drop our locks. Nothing is overwritten,
and a copy that was not finished is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from duework.db.sqlite import files
from duework.db.sqlite.tx import translated
from duework.errors import UsageError


def copied(connect: Callable[[], apsw.Connection], path: Path) -> Iterator[tuple[int, int]]:
    """Copy to a new file; yields how many pages are done, and of how many."""
    if "\0" in str(path):
        raise UsageError(f"there is a NUL in the path {str(path)!r}")
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already: a backup overwrites nothing")
    files.create(path)
    source, destination = connect(), apsw.Connection(str(path))
    whole = False
    try:
        with translated(), destination.backup("main", source, "main") as copy:
            while not copy.done:
                copy.step(256)
                yield copy.page_count - copy.remaining, copy.page_count
        whole = True
    finally:
        destination.close()
        source.close()
        if not whole:
            path.unlink(missing_ok=True)
