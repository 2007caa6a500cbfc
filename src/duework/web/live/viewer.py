"""One browser that looks at a page: what it has not got yet, and how it is told that this is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from starlette.websockets import WebSocket

# A browser that takes nothing for so long is let go; it comes back when it can.
SLOW_SECONDS = 5.0
CLOSE_SECONDS = 1.0
TRY_LATER, SIGN_IN = 1013, 4401


class Viewer:
    """Holds one unsent message: what is offered meanwhile replaces it, region by region."""

    def __init__(
        self, socket: WebSocket, session: str, is_open: Callable[[], bool], keys: tuple[str, str]
    ) -> None:
        # Empty for what needs none; and whether it still holds.
        self.session = session
        self.is_open = is_open
        # It has not seen the page yet.
        self.newcomer = False
        self._socket = socket
        # Pages are rendered for all viewers with a marker in place of what is one session's own.
        self._marker, self._form_key = keys
        self._unsent: dict[str, str] = {}
        self._ready = asyncio.Event()
        self._code: int | None = None

    def offer(self, regions: Mapping[str, str]) -> None:
        self._unsent |= regions
        self._ready.set()

    def end(self, code: int) -> None:
        """Close it, with a reason that the page understands."""
        self._code = code
        self._ready.set()

    async def serve(self) -> None:
        """Send what is offered until it is over."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            if self._code is not None:
                return await self._close(self._code)
            unsent, self._unsent = self._unsent, {}
            try:
                async with asyncio.timeout(SLOW_SECONDS):
                    await self._socket.send_text(self._message(unsent))
            except TimeoutError:
                return await self._close(TRY_LATER)

    def _message(self, regions: Mapping[str, str]) -> str:
        text = "\n".join(
            f'<hx-partial hx-target="#{name}" hx-swap="outerMorph">{html}</hx-partial>'
            for name, html in regions.items()
        )
        return text.replace(self._marker, self._form_key)

    async def _close(self, code: int) -> None:
        # One that takes nothing does not take this either.
        with contextlib.suppress(TimeoutError, RuntimeError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(code)
