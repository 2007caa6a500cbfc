"""Runs twins: one thread, one event loop, a port of loopback for each."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import threading
from collections.abc import Collection, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from systems.twins.kit.app import Twin
from systems.twins.kit.replies import Connection
from systems.twins.kit.tls import Authority

T = TypeVar("T")
HOST = "127.0.0.1"
BACKLOG = 4096


class Served:
    """Twins that are up between `with` and its end."""

    def __init__(
        self, all_of: Sequence[Twin], *, https: Collection[str] = (), port: int = 0
    ) -> None:
        self.all = list(all_of)
        self.https = set(https)
        self.port = port
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._authority: Authority | None = None
        self._servers: list[tuple[asyncio.Server, ServerState]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="twins", daemon=True)

    @property
    def ca(self) -> Path:
        """The certificate of the test CA, for clients of what is served by https."""
        if self._authority is None:
            self._folder = tempfile.TemporaryDirectory(prefix="twins-")
            self._authority = Authority(Path(self._folder.name))
        return self._authority.ca

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._folder is not None:
            self._folder.cleanup()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the twins' event loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def settle(self) -> None:
        """Wait until every webhook and push that is due has been sent."""
        for twin in self.all:
            self.run(twin.courier.settle())

    async def _start(self) -> None:
        for number, twin in enumerate(self.all):
            port = self.port + number if self.port else 0
            twin.url = await self.listen(twin.application(), port, https=twin.name in self.https)
            await twin.courier.start()
            await twin.open(self)

    async def listen(self, application: ASGIApp, port: int = 0, *, https: bool = False) -> str:
        """Serve an application; returns its URL."""
        # Named as TCP, so that asyncio sends small replies at once; else each waits 40 ms.
        place = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((HOST, port))
        except OSError:
            place.close()
            raise
        config = uvicorn.Config(
            application,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            # The twin dates its replies by its own clock.
            date_header=False,
            server_header=False,
        )
        config.load()
        state = ServerState()

        def connection() -> Connection:
            return Connection(config=config, server_state=state, app_state={}, _loop=self._loop)

        context = self.authority().context() if https else None
        server = await self._loop.create_server(
            connection, sock=place, ssl=context, backlog=BACKLOG
        )
        self._servers.append((server, state))
        return f"{'https' if https else 'http'}://{HOST}:{place.getsockname()[1]}"

    def authority(self) -> Authority:
        _ = self.ca
        assert self._authority is not None
        return self._authority

    async def _stop(self) -> None:
        for twin in self.all:
            await twin.close()
            await twin.courier.stop()
        for server, state in self._servers:
            server.close()
            for connection in list(state.connections):
                with contextlib.suppress(AttributeError):
                    connection.transport.abort()
            for task in list(state.tasks):
                task.cancel()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
