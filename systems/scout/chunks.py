"""Many rows by a hundred at a time: of values in a statement, and of rows in a write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# What the smallest database that this was made for binds in one statement.
MOST = 100


def of(items: Iterable[T], most: int = MOST) -> Iterator[list[T]]:
    """Lists of at most so many."""
    some: list[T] = []
    for each in items:
        some.append(each)
        if len(some) == most:
            yield some
            some = []
    if some:
        yield some


def read(
    reader: Callable[..., list[Any]], sql: str, values: Sequence[Any], **more: Any
) -> list[Any]:
    """All rows of a select with `in ({these})`, whatever the number of values."""
    found: list[Any] = []
    for some in of(values):
        names = {f"v{at}": value for at, value in enumerate(some)}
        found += reader(sql.format(these=", ".join(f":{name}" for name in names)), **names, **more)
    return found


def write(to: Any, sql: str, rows: Iterable[dict[str, Any]]) -> int:
    """One statement with many rows; how many writes it took."""
    count = 0
    for some in of(rows):
        to.write(sql, rows=some)
        count += 1
    return count
