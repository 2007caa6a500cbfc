"""Many independent trials on all cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def spread(work: Callable[[T], R], items: Sequence[T], chunk: int = 4) -> Iterator[R]:
    """Call `work`, which is found by its name, with each item; the answers in any order."""
    cores = len(os.sched_getaffinity(0))
    if cores == 1 or len(items) < 2:
        yield from map(work, items)
        return
    with multiprocessing.get_context("fork").Pool(cores, _end_at_once) as pool:
        yield from pool.imap_unordered(work, items, chunk)


def _end_at_once() -> None:
    """The pool ends its processes by this signal, whatever it means to the one that made it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
