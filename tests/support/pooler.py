"""A stand-in for PgBouncer in transaction mode: a session of the server serves one transaction after another.

Clients are let in without a password and get what PgBouncer gives them: a number for cancelling that is not
the server's, no settings of their own, and for each transaction whichever session is free.
"""

import contextlib
import os
import queue
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg

PLAIN = {80877103, 80877104}  # asks for encryption; the answer is N
REPORTED = (
    "server_version",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "standard_conforming_strings",
)


class Session:
    """A session of the server's, as a plain socket."""

    def __init__(self, url: str) -> None:
        self._made = psycopg.connect(url, autocommit=True)
        self.reported = {name: self._made.info.parameter_status(name) or "" for name in REPORTED}
        self.socket = socket.socket(fileno=os.dup(self._made.fileno()))
        self.socket.setblocking(True)

    def forget(self) -> None:
        """Drop what came while it was nobody's, such as notifications."""
        while select.select([self.socket], [], [], 0)[0] and self.socket.recv(65536):
            pass

    def close(self) -> None:
        self.socket.close()
        self._made.close()


class Pooler:
    """Listens on loopback; `url` leads through it."""

    def __init__(self, url: str, sessions: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        parts = urlsplit(url)
        name = parts.netloc.rpartition("@")[0]
        self.url = parts._replace(
            netloc=f"{name}@127.0.0.1:{self._listener.getsockname()[1]}"
        ).geturl()
        self._server = url
        self._all = [Session(url) for _ in range(sessions)]
        self._clients: list[socket.socket] = []
        self._lock, self._closed = threading.Lock(), False
        # The one that was free last goes first, as in PgBouncer.
        self._free: queue.LifoQueue[Session] = queue.LifoQueue()
        for session in self._all:
            self._free.put(session)
        self.transactions = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._listener.close()
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for session in self._all:
            session.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError, struct.error), client:
            while struct.unpack("!I", _exactly(client, _length(client))[:4])[0] in PLAIN:
                client.sendall(b"N")
            client.sendall(self._welcome())
            while self._transaction(client):
                self.transactions += 1

    def _welcome(self) -> bytes:
        said = [_message(b"R", struct.pack("!I", 0))]
        for name, value in self._all[0].reported.items():
            said.append(_message(b"S", f"{name}\0{value}\0".encode()))
        said.append(_message(b"K", struct.pack("!II", 1_000_000_000, 7)))
        return b"".join([*said, _message(b"Z", b"I")])

    def _transaction(self, client: socket.socket) -> bool:
        """One transaction on one session; False if the client is leaving."""
        first = _read(client)
        if first[:1] == b"X":
            return False
        session = self._free.get()
        session.forget()
        whole = False
        try:
            whole = _relay(client, session.socket, first)
        finally:
            # As PgBouncer does with one that is left in the middle of something.
            self._free.put(session if whole else self._replaced(session))
        return whole

    def _replaced(self, session: Session) -> Session:
        with self._lock:
            if not self._closed:
                session.close()
                self._all[self._all.index(session)] = session = Session(self._server)
        return session


def _relay(client: socket.socket, server: socket.socket, first: bytes) -> bool:
    server.sendall(first)
    # Answers that end with "ready" are still to come.
    open_ends = int(first[:1] in b"QS")
    while True:
        for side in select.select([client, server], [], [])[0]:
            message = _read(side)
            if side is client:
                if message[:1] == b"X":
                    return False
                server.sendall(message)
                open_ends += message[:1] in b"QS"
                continue
            client.sendall(message)
            if message[:1] == b"Z":
                open_ends -= 1
                if not open_ends and message[-1:] == b"I":
                    return True


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def _read(side: socket.socket) -> bytes:
    kind = _exactly(side, 1)
    return _message(kind, _exactly(side, _length(side)))


def _length(side: socket.socket) -> int:
    return int(struct.unpack("!I", _exactly(side, 4))[0]) - 4


def _exactly(side: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = side.recv(count - len(found))
        if not piece:
            raise EOFError
        found += piece
    return found


@contextmanager
def pooler(url: str, sessions: int = 3) -> Iterator[Any]:
    made = Pooler(url, sessions)
    try:
        yield made
    finally:
        made.close()
