"""All live pages of one process: who looks at what, and what a change means to them.

There is one listener for changes while somebody looks, and nothing at all while nobody does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from duework.changes import ChangeStream
from duework.errors import Error
from duework.web.live.view import LivePage, LiveView
from duework.web.live.viewer import SIGN_IN, Viewer

if TYPE_CHECKING:
    from duework.app import App

COALESCE = "100ms"
MOST_VIEWERS = 1000
# How often it is asked whether sessions still hold: after changes, and without any.
SESSIONS_SECONDS, SESSIONS_AT_LEAST_SECONDS = 2.0, 300.0


class Hub:
    """The views of one event loop."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.views: dict[Hashable, LiveView] = {}
        self._viewers = 0
        self._tasks: list[asyncio.Task[None]] = []
        # Something has changed that may have ended a session.
        self._doubt = asyncio.Event()

    @property
    def full(self) -> bool:
        return self._viewers >= MOST_VIEWERS

    @contextlib.asynccontextmanager
    async def joined(self, page: LivePage, viewer: Viewer) -> AsyncIterator[None]:
        """Let it look at a page; what changes from here on reaches it."""
        self._viewers += 1
        if not self._tasks:
            stream = self._app.changes(COALESCE)
            self._tasks = [
                asyncio.create_task(self._listen(stream), name="duework-hub"),
                asyncio.create_task(self._guard(), name="duework-sessions"),
            ]
        view = self.views.get(page.key)
        if view is None:
            view = self.views[page.key] = LiveView(page)
        view.join(viewer)
        try:
            yield
        finally:
            self._leave(view, viewer)

    def _leave(self, view: LiveView, viewer: Viewer) -> None:
        view.viewers.discard(viewer)
        self._viewers -= 1
        if not view.viewers:
            view.close()
            del self.views[view.page.key]
        if not self._viewers:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def _listen(self, stream: ChangeStream) -> None:
        try:
            async for change in stream:
                for view in list(self.views.values()):
                    view.touch(change.topics)
                if change.about("tokens"):
                    self._doubt.set()
        finally:
            await stream.aclose()

    async def _guard(self) -> None:
        """Let those go whose session has ended, was revoked or has run out."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._doubt.wait(), SESSIONS_AT_LEAST_SECONDS)
            self._doubt.clear()
            viewers = [viewer for view in self.views.values() for viewer in view.viewers]
            sessions = {viewer.session: viewer.is_open for viewer in viewers if viewer.session}
            with contextlib.suppress(Error):
                ended = await run_in_threadpool(_ended, sessions)
                for viewer in viewers:
                    if viewer.session in ended:
                        viewer.end(SIGN_IN)
            await asyncio.sleep(SESSIONS_SECONDS)


def _ended(sessions: Mapping[str, Callable[[], bool]]) -> set[str]:
    return {session for session, is_open in sessions.items() if not is_open()}
