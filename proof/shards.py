"""Many independent trials on all cores."""

from __future__ import annotations

import multiprocessing
import os
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
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        yield from pool.imap_unordered(work, items, chunk)
