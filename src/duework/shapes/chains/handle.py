"""What users hold in their hands of chains: a page while it runs, and a chain to look at and steer.

`Page`, `Next` and `End` are the language of a page's function. `Chain` is a row as it was when it was
looked at; its verbs go through `verbs.py`, which is the only place that changes one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from duework.averbs import averb
from duework.clock import pause
from duework.codec import decode
from duework.durations import Duration, milliseconds
from duework.errors import Error, InvalidArguments, UsageError, WaitTimeout
from duework.handles import looks
from duework.kernel.job import phase
from duework.kernel.run import Run

if TYPE_CHECKING:
    from duework.shapes.chains.verbs import Chains

ChainState = Literal["active", "done", "failed", "cancelled"]
Counts = dict[str, int | float]

# An estimate may be wrong: only the end itself is 100.
_NEARLY = 99.0


class Expected(msgspec.Struct, frozen=True):
    """What a page said about the end: a total of one of the counts, or where the cursor will stop."""

    total: float | None = None
    of: str | None = None
    first: float | None = None
    last: float | None = None


class Next(msgspec.Struct, frozen=True, tag="next"):
    """This page is done, and there is another, which starts at `cursor`.

    `counts` are added to the chain's; `size` is asked of later pages; `quota` is kept with the page;
    `delay` puts the next page off.
    """

    cursor: Any
    counts: Mapping[str, int | float] = {}
    size: int | None = None
    quota: Mapping[str, int | float] = {}
    # A duration.
    delay: Any = None
    expected: Expected | None = None

    def __post_init__(self) -> None:
        if self.cursor is None:
            raise UsageError("Next needs a cursor; the last page returns End()")
        if self.size is not None:
            check_size(self.size)
        if self.delay is not None:
            milliseconds(self.delay)


class End(msgspec.Struct, frozen=True, tag="end"):
    """This page is done and was the last one."""

    counts: Mapping[str, int | float] = {}
    quota: Mapping[str, int | float] = {}
    expected: Expected | None = None


def expected_of(text: str) -> Expected:
    """What is stored of it."""
    try:
        return msgspec.json.decode(text, type=Expected)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidArguments(f"stored data cannot be read: {error}") from error


def check_size(size: int) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise UsageError(f"the size of a page is a whole number from 1 up, not {size!r}")
    return size


class Page:
    """The page that runs; the first parameter of a chain's function."""

    def __init__(self, run: Run, row: Any) -> None:
        self.run = run
        self.chain: int = row.chain
        self.key: str | None = row.key
        self.number: int = row.number
        self.size: int = row.size
        # What the page before returned, as JSON keeps it; None on the first page.
        self.cursor: Any = None if row.cursor is None else decode(row.cursor)
        # The counts of all completed pages, summed.
        self.totals: Counts = decode(row.counts)
        # What was said of the end, if anything was.
        self.expected: Expected | None = None

    def expect(
        self,
        total: float | None = None,
        *,
        of: str | None = None,
        span: Sequence[float] | None = None,
    ) -> None:
        """Say where the end is, for the percentage: known from now on, and kept with this page.

        Either the total of the count named `of` (the first one if left out), or `span`: the cursor's
        value at the beginning and at the end, where the cursor is a number or a list that starts
        with one. Say it again whenever there is a better guess.
        """
        if (total is None) == (span is None):
            raise UsageError("page.expect takes a total, or span=(first, last)")
        if span is None:
            self.expected = Expected(total=_number("total", total), of=of)
            return
        if len(span) != 2:  # noqa: PLR2004 - two ends
            raise UsageError(f"span= is the cursor at the beginning and at the end, not {span!r}")
        first, last = (_number("span", each) for each in span)
        self.expected = Expected(first=first, last=last)

    def __repr__(self) -> str:
        return f"<page {self.number} of chain {self.chain}>"


def _number(what: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise UsageError(f"page.expect: {what} is a number, not {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class ChainProgress:
    """How far a chain is."""

    state: ChainState
    # Completed pages, and the number of the newest one.
    pages: int
    number: int
    counts: Mapping[str, int | float]
    # None if nobody said where the end is; 100 only when it is done.
    percent: float | None
    error: str | None
    started: int
    settled: int | None


@dataclass(frozen=True, slots=True)
class ChainPage:
    """One page of a chain, for people to look at. Times are in milliseconds."""

    number: int
    # waiting, ready, running or expired while it is open, then done, failed or cancelled.
    phase: str
    cursor: Any
    size: int
    counts: Mapping[str, int | float]
    quota: Mapping[str, int | float]
    job: int
    failures: int
    error: str | None
    created: int
    started: int | None
    settled: int | None


def page_of(row: Sequence[Any], now: int) -> ChainPage:
    """A row of the `pages` statement."""
    number, state, cursor, size, counts, quota, job, failures, error, *times, due, worker = row
    shown = phase(state, due or 0, worker, now)
    counted, used = _data(counts) or {}, _data(quota) or {}
    some = (number, shown, _data(cursor), size, counted, used, job, failures, error, *times)
    return ChainPage(*some)


def _data(text: str | None) -> Any:
    return None if text is None else decode(text)


class Chain(msgspec.Struct, frozen=True):
    """A chain as it was when it was looked at; `refresh()` looks again."""

    id: int
    task: str
    key: str | None
    state: ChainState
    payload: str
    queue: str
    priority: int
    size: int
    stored_cursor: str | None
    number: int
    completed: int
    stored_counts: str
    stored_expected: str | None
    finishing: int
    error: str | None
    started: int
    settled: int | None
    due: int
    # Whether a start found this chain instead of making it.
    existed: bool = False
    _chains: Any = None

    def __repr__(self) -> str:
        return f"<chain {self.id} {self.task} {self.state}, {self.completed} pages>"

    @property
    def cursor(self) -> Any:
        """Where the page after the last completed one starts; None at the beginning."""
        return _data(self.stored_cursor)

    @property
    def counts(self) -> Counts:
        """The counts of the completed pages, summed."""
        counts: Counts = decode(self.stored_counts)
        return counts

    @property
    def arguments(self) -> Any:
        """The stored arguments by name, as plain data."""
        return decode(self.payload)

    @property
    def percent(self) -> float | None:
        """How far it is, by what its pages expect; None if they said nothing."""
        if self.state == "done":
            return 100.0
        share = self._share()
        if share is None:
            return None
        return min(_NEARLY, max(0.0, math.floor(share * 1000) / 10))

    def _share(self) -> float | None:
        if self.stored_expected is None:
            return None
        wanted = expected_of(self.stored_expected)
        if wanted.total is not None:
            reached = self.counts.get(wanted.of or "", 0)
            return reached / wanted.total if wanted.total > 0 else None
        first, last, here = wanted.first, wanted.last, _place(self.cursor, wanted.first)
        if first is None or last is None or here is None or first == last:
            return None
        return (here - first) / (last - first)

    def refresh(self) -> Chain:
        """The chain as it is now."""
        return self._of().get(self.id)

    def progress(self) -> ChainProgress:
        """How far it is now: one row, whatever its size."""
        now = self.refresh()
        return ChainProgress(
            now.state,
            now.completed,
            now.number,
            now.counts,
            now.percent,
            now.error,
            now.started,
            now.settled,
        )

    def pages(self, *, after: int = 0, limit: int = 100) -> list[ChainPage]:
        """Its pages in order; go on with `after=` the last number."""
        return self._of().pages(self.id, after, limit)

    def cancel(self, why: str = "cancelled by hand") -> str:
        """End it between two pages: 'cancelled', 'cancelling' if a page runs, or how it had ended."""
        return self._of().cancel(self.id, why)

    def resume(self) -> Chain:
        """Go on after the last completed page; `Conflict` if it is done or its key is taken."""
        self._of().resume(self.id)
        return self.refresh()

    def retry(self) -> Chain:
        """Run its failed page again; `Conflict` if there is none."""
        self._of().retry(self.id)
        return self.refresh()

    arefresh = averb(refresh)
    aprogress = averb(progress)
    apages = averb(pages)
    acancel = averb(cancel)
    aresume = averb(resume)
    aretry = averb(retry)

    def wait(self, timeout: Duration | None = None) -> Chain:
        """Wait until it is not active; `WaitTimeout` if that takes longer."""
        for delay in looks(timeout):
            chain = self.refresh()
            if chain.state != "active":
                return chain
            pause(delay)
        raise WaitTimeout(f"chain {self.id} is still active after {timeout}")

    async def await_(self, timeout: Duration | None = None) -> Chain:  # noqa: ASYNC109 - as `wait`
        """The same for async code."""
        for delay in looks(timeout):
            chain = await asyncio.to_thread(self.refresh)
            if chain.state != "active":
                return chain
            await asyncio.sleep(delay)
        raise WaitTimeout(f"chain {self.id} is still active after {timeout}")

    def _of(self) -> Chains:
        if self._chains is None:
            raise Error("this chain is not bound to an App")
        chains: Chains = self._chains
        return chains


def _place(cursor: Any, first: float | None) -> float | None:
    """The number that tells where a cursor is; at the beginning there is none yet."""
    if cursor is None:
        return first
    if isinstance(cursor, list) and cursor:
        cursor = cursor[0]
    return cursor if isinstance(cursor, (int, float)) else None
