"""A server on loopback that answers exactly the bytes that a test wants, and counts connections."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

Answer = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    port: int = 0
    scheme: str = "http"
    connections: int = 0
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


def reply(status: str = "200 OK", body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def saying(raw: bytes) -> Answer:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)

    return answer


async def hanging_up(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """The request had its effect, and its answer never arrives."""
    writer.transport.abort()


async def silence(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


@contextlib.contextmanager
def serving(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    found = Server(scheme="https" if context else "http")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        try:
            with contextlib.suppress(OSError, EOFError):
                while not writer.transport.is_closing():
                    asked = await _read(reader)
                    found.asked.append(asked)
                    await answer(asked, writer)
                    await writer.drain()
        finally:
            writer.transport.abort()

    async def start() -> asyncio.Server:
        # A client that hangs up in the middle of a handshake is no news.
        loop.set_exception_handler(lambda _loop, _context: None)
        return await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context, backlog=200)

    async def stop() -> None:
        server.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        # A connection that was ended says so in the loop's next turn.
        await asyncio.sleep(0)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result()
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {}
    for line in head[1:-2]:
        name, _, text = line.partition(":")
        headers[name.lower()] = text.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, body)
