"""One page as one kind of viewer sees it: rendered once for all of them, sent to each if it changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from duework.clock import monotonic
from duework.errors import Error, NotFound
from duework.web.live.viewer import Viewer

LOG = logging.getLogger("duework")
# At most five messages a second, whatever the regions say.
LEAST_SECONDS = 0.2
# When to try again after the database did not answer.
RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rendered:
    """The regions of a page by id, and in how many seconds they look different without any change."""

    regions: Mapping[str, str]
    again: float | None = None


@dataclass(frozen=True, slots=True)
class LivePage:
    """What to render for one address and one kind of viewer; two of the same key are the same page."""

    key: Hashable
    topics: frozenset[str]
    render: Callable[[], Awaitable[Rendered]]
    # How often a region is sent at most, in seconds; one that is not named here goes along with others.
    interval: Callable[[str], float | None]
    least: float = LEAST_SECONDS


class LiveView:
    """Renders a page for its viewers while there are any."""

    def __init__(self, page: LivePage) -> None:
        self.page = page
        self.viewers: set[Viewer] = set()
        # What was rendered last, and what was sent last and when.
        self._latest: dict[str, str] = {}
        self._sent: dict[str, tuple[str, float]] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._rendered = False
        self._again: float | None = None
        self._task = asyncio.create_task(self._serve(), name="duework-live")

    def join(self, viewer: Viewer) -> None:
        """Show it all regions, rendered anew.

        Its page was made just now, and may say what no commit told of: the last rendering may be older.
        """
        self.viewers.add(viewer)
        viewer.newcomer = True
        self._changed.set()

    def touch(self, topics: frozenset[str] | None) -> None:
        if topics is None or not topics.isdisjoint(self.page.topics):
            self._changed.set()

    def close(self) -> None:
        self._task.cancel()

    async def _serve(self) -> None:
        rendered_at = -self.page.least
        while True:
            await self._until_something()
            if (left := rendered_at + self.page.least - monotonic()) > 0:
                await asyncio.sleep(left)
            now = monotonic()
            if self._changed.is_set() or (self._again is not None and now >= self._again):
                rendered_at = now
                await self._render()
            self._send(monotonic())

    async def _until_something(self) -> None:
        """Wait for a change, for the next moment in which time shows, or for a region's turn."""
        ends = [] if self._again is None else [self._again]
        ends += [self._turn(name) for name in self._unsent()]
        timeout = max(0.0, min(ends) - monotonic()) if ends else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout)

    async def _render(self) -> None:
        # Before: what changes meanwhile may be missing in it.
        self._changed.clear()
        self._again = None
        try:
            made = await self.page.render()
        except (NotFound, HTTPException):
            # It is gone; what is shown was true to the end.
            return
        except Error as error:
            LOG.warning("a live page could not be rendered: %s", error)
            self._again = monotonic() + RETRY_SECONDS
            return
        except Exception:
            LOG.exception("a live page could not be rendered")
            return
        self._rendered = True
        self._latest = dict(made.regions)
        if made.again is not None:
            self._again = monotonic() + max(made.again, self.page.least)

    def _unsent(self) -> list[str]:
        """Regions whose text is another one than the viewers have; not those that only go along."""
        return [
            name
            for name, text in self._latest.items()
            if self.page.interval(name) is not None and self._sent.get(name, ("", 0))[0] != text
        ]

    def _turn(self, name: str) -> float:
        before = self._sent.get(name)
        return 0.0 if before is None else before[1] + (self.page.interval(name) or 0)

    def _send(self, now: float) -> None:
        due = {name: self._latest[name] for name in self._unsent() if self._turn(name) <= now}
        if due:
            along = {k: v for k, v in self._latest.items() if self.page.interval(k) is None}
            due |= along
            self._sent |= {name: (text, now) for name, text in due.items()}
        for viewer in list(self.viewers):
            if viewer.newcomer and self._rendered:
                viewer.newcomer = False
                viewer.offer(self._latest)
            elif due:
                viewer.offer(due)
