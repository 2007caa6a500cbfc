"""The slot of a task in a thread, lent to others while the task waits for another job.

Else as many tasks as there are threads could wait for jobs that no thread is left to run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Called with True when the slot is lent, and with False when it is taken back; from the task's thread.
Lend = Callable[[bool], None]

_here = threading.local()


def begin(lend: Lend) -> None:
    """What this thread runs from now on has such a slot."""
    _here.lend = lend


@contextmanager
def lent() -> Iterator[None]:
    """Where a task waits. Elsewhere it does nothing."""
    lend: Lend | None = getattr(_here, "lend", None)
    if lend is None:
        yield
        return
    lend(True)  # noqa: FBT003 - as described above
    try:
        yield
    finally:
        lend(False)  # noqa: FBT003
