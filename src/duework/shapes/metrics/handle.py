"""Metrics as users hold them: `app.metrics`; and what the housekeeping does for them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from duework.averbs import Verbs, averb
from duework.clock import monotonic
from duework.durations import Moment, moment
from duework.errors import UsageError, check_one_of
from duework.kernel.minutes.series import SERIES, forget
from duework.shapes.metrics import SHAPE
from duework.shapes.shape import CHUNK, Hooks, Shape, in_chunks

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.wiring import Wiring

SPANS = {"minute": 1, "hour": 60, "day": 1440}
_NAME = re.compile(r"(?!duework_)[a-zA-Z_][a-zA-Z0-9_]{0,99}")
_LABEL = re.compile(r"(?!__|le$)[a-zA-Z_][a-zA-Z0-9_]{0,49}")
MOST_LABELS, MOST_LETTERS, MOST_POINTS = 10, 200, 10_000


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """What was counted under one name and one set of labels, in one span of time."""

    name: str
    labels: dict[str, str]
    kind: str
    # How often it was counted, the sum, and the largest; seconds if it is a timing.
    count: int
    total: float
    most: float
    # In milliseconds since 1970; 0 stands for all of time.
    start: int = 0


class Metrics(Verbs):
    """What a program counts of its own: written with commits that are made anyway."""

    def add(self, name: str, amount: float = 1, /, **labels: object) -> None:
        """Count, or add to a sum: `app.metrics.add("apps_discovered", 12, phase="scan")`."""
        self._note(name, "counter", amount, labels)

    def time(self, name: str, seconds: float, /, **labels: object) -> None:
        """Note how long something took."""
        self._note(name, "timing", seconds, labels)

    @contextlib.contextmanager
    def timer(self, name: str, /, **labels: object) -> Iterator[None]:
        """Note how long the block took, also if it fails."""
        began = monotonic()
        try:
            yield
        finally:
            self.time(name, monotonic() - began, **labels)

    def flush(self) -> None:
        """Write what was counted here now; needed only in a program that commits nothing else."""
        self.engine.writer.call(self.engine.write_series, [None])

    def read(
        self,
        name: str,
        span: Literal["minute", "hour", "day"] = "minute",
        *,
        since: Moment = 0,
        limit: int = MOST_POINTS,
    ) -> list[MetricPoint]:
        """What was counted under a name, oldest first, by minute, hour or day."""
        check_one_of("span", span, tuple(SPANS))
        begin = since if isinstance(since, int) else moment(since)
        values = {"span": SPANS[span], "name": name, "since": begin, "wanted": limit}
        with self.engine.database.reading() as tx:
            rows = tx.query(SERIES.points, values)
        return [_point(name, row[1:], row[0]) for row in rows]

    def totals(self, *, limit: int = MOST_POINTS) -> list[MetricPoint]:
        """The sums of all time, by name and labels."""
        with self.engine.database.reading() as tx:
            rows = tx.query(SERIES.totals, {"wanted": limit})
        return [_point(row[0], row[1:], 0) for row in rows]

    aflush = averb(flush)
    aread = averb(read)
    atotals = averb(totals)

    def _note(self, name: str, kind: str, value: float, labels: dict[str, object]) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            message = (
                f"a metric's name has letters, digits and _, and begins with a letter: not {name!r}"
            )
            raise UsageError(message)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            raise UsageError(f"{name} counts numbers from 0 up, not {value!r:.100}")
        self.engine.series.add(name, _labels(labels), kind, float(value))


class MetricKeeping(Hooks):
    """What the engine calls of metrics: the housekeeping."""

    shape: ClassVar[Shape] = SHAPE

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def prune(self) -> None:
        in_chunks(self._wiring.engine, self._prune)

    def _prune(self, tx: Tx, items: list[None]) -> Sequence[int]:
        now = self._wiring.engine.clock.now()
        return [forget(tx, now=now, chunk=CHUNK) for _ in items]


def _labels(labels: dict[str, object]) -> str:
    """As they are stored: by name, and texts."""
    found = {name: str(labels[name]) for name in sorted(labels)}
    for name, text in found.items():
        if not _LABEL.fullmatch(name) or len(text) > MOST_LETTERS or not text.isprintable():
            raise UsageError(
                f"a label is a name and up to {MOST_LETTERS} printable characters,"
                f" not {name}={text!r:.50}"
            )
    if len(found) > MOST_LABELS:
        raise UsageError(f"a metric has at most {MOST_LABELS} labels")
    return msgspec.json.encode(found).decode()


def _point(name: str, row: Sequence[Any], start: int) -> MetricPoint:
    labels, kind, count, total, most = row
    known = msgspec.json.decode(labels, type=dict[str, str])
    return MetricPoint(name, known, kind, count, total, most, start)
