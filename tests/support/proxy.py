"""A TCP proxy between us and PostgreSQL that can lose things.

It cuts a connection at a COMMIT, either before the server hears of it or after the server has
done it and before we hear of that; it can go silent as a partition does; and it counts round
trips. Partition means that the kernel drops all packets of the connection unanswered (a socket
filter does that, without privileges), so that TCP's own timeouts can be seen at work. Frozen means
that packets are acknowledged and nothing else happens.
"""

import ctypes
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

SO_ATTACH_FILTER = 26
SO_DETACH_FILTER = 27

# "asked" lets the request through and cuts then, whether or not the server will ever answer.
Cut = Literal["before commit", "asked", "after commit"]


class Proxy:
    """Forwards connections; `url` leads through it to the server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        credentials = parts.netloc.rpartition("@")[0]
        self.url = parts._replace(netloc=f"{credentials}@127.0.0.1:{port}").geturl()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._cut: Cut | None = None
        # A query's text and a command's tag are both zero-terminated.
        self._words = {"before commit": b"commit\0", "after commit": b"COMMIT\0"}
        self._words["asked"] = self._words["before commit"]
        self._open = threading.Event()
        self._open.set()
        self._silent = False
        self._closed = False
        self.cuts = 0
        # How often the direction changed from the server's answers to our requests.
        self.round_trips = 0
        self._answered = True
        self._start(self._accept)

    def cut_at(self, where: Cut, word: bytes | None = None) -> None:
        """Cut the connection once, at the next COMMIT or whatever else commits there."""
        if word is not None:
            self._words[where] = word
        self._cut = where

    def freeze(self) -> None:
        """Forward nothing until `thaw`; packets are still acknowledged."""
        self._open.clear()

    def thaw(self) -> None:
        self._open.set()

    def partition(self) -> None:
        """Drop all packets of the connections there are; new ones are cut at once."""
        self._silent = True
        self._open.clear()
        for ours, theirs in self._pairs:
            for side in (ours, theirs):
                _drop_packets(side)

    def heal(self) -> None:
        """Let new connections through; the old ones are gone."""
        self._silent = False
        self._open.set()

    def close(self) -> None:
        self._closed = True
        self._open.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for pair in self._pairs:
            _cut(pair)
        for thread in self._threads:
            thread.join(5)
        for ours, theirs in self._pairs:
            ours.close()
            theirs.close()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._silent:
                    raise ConnectionRefusedError
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = (client, server)
            self._pairs.append(pair)
            self._start(self._forward, pair, "before commit")
            self._start(self._forward, pair[::-1], "after commit")

    def _forward(self, pair: tuple[socket.socket, socket.socket], cut: Cut) -> None:
        source, target = pair
        with suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                if self._closed or self._silent:
                    return
                self._count(cut)
                at = self._cut
                ours = at == cut or (at == "asked" and cut == "before commit")
                if at is not None and ours and self._words[at] in data:
                    self._cut = None
                    if at == "asked":
                        target.sendall(data)
                    self.cuts += 1
                    break
                target.sendall(data)
        if not self._silent:
            _cut(pair)

    def _count(self, direction: Cut) -> None:
        asking = direction == "before commit"
        if asking and self._answered:
            self.round_trips += 1
        self._answered = not asking


@contextmanager
def proxy(url: str) -> Iterator[Proxy]:
    running = Proxy(url)
    try:
        yield running
    finally:
        running.close()


def _cut(pair: tuple[socket.socket, socket.socket]) -> None:
    for side in pair:
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


def _drop_packets(side: socket.socket) -> None:
    """Attach a filter of one instruction: let through the first 0 bytes of every packet."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    with suppress(OSError):
        side.setsockopt(
            socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program))
        )
