"""What is below a client: connections, the TLS context of the process, the library. Loaded at first use.

httpx2 writes requests and httpcore2 carries them. Its client is not used: it logs whole URLs, in which there
may be tokens, and keeps cookies of whoever asked before.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Coroutine, Iterable
from functools import lru_cache
from typing import Any, TypeVar

import httpcore2
import httpx2

from duework.errors import UsageError
from duework.outside.guard import Guard

T = TypeVar("T")

# As long as the most common servers keep an idle connection, and no longer.
IDLE_SECONDS = 5.0
FAILURES = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
    OSError,
)
_lock = threading.Lock()
# By process: the thread of a loop does not live on in a fork.
_loops: dict[int, asyncio.AbstractEventLoop] = {}


@lru_cache
def tls(ca: str | None = None) -> ssl.SSLContext:
    """The one TLS context of this process, for each authority: reading its certificates takes a while."""
    return httpx2.create_ssl_context() if ca is None else ssl.create_default_context(cafile=ca)


def parsed(url: str) -> httpx2.URL:
    try:
        return httpx2.URL(url)
    except httpx2.InvalidURL:
        # Its message repeats parts of the URL, where a token may be.
        raise UsageError("the URL cannot be read") from None


class Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that the guard has judged; names are looked up once for a connection."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._wire = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as the library calls it
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await asyncio.to_thread(self._guard.addresses, host, port)
        failure: Exception = httpcore2.ConnectError("the name stands for no address")
        for address in addresses:
            try:
                return await self._wire.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure


def make_pool(size: int, guard: Guard | None, ca: str | None) -> httpcore2.AsyncConnectionPool:
    return httpcore2.AsyncConnectionPool(
        ssl_context=tls(ca),
        max_connections=size,
        max_keepalive_connections=size,
        keepalive_expiry=IDLE_SECONDS,
        network_backend=None if guard is None else Pinned(guard),
    )


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Do it in an event loop that lives in a thread of its own, for callers that have none."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="duework-http", daemon=True).start()
    return asyncio.run_coroutine_threadsafe(work, loop).result()
