"""A Redis server on loopback for the peers that need one: append-only file, fsync each second."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

READY_WITHIN = 10.0


class Redis:
    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"

    def ask(self, command: str) -> str:
        """One command, by Redis's own inline protocol."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(65_536).decode()

    def version(self) -> str:
        lines = self.ask("info server").splitlines()
        return next(line.partition(":")[2] for line in lines if line.startswith("redis_version"))


@contextmanager
def serving(program: Path, folder: Path) -> Iterator[Redis]:
    """A server for the duration of the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir()
    settings = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    log = ["--appendonly", "yes", "--appendfsync", "everysec", "--logfile", str(folder / "log")]
    process = subprocess.Popen([str(program), *settings, *log], stdout=subprocess.DEVNULL)
    server = Redis(port)
    try:
        _ready(server)
        yield server
    finally:
        process.kill()
        process.wait()


def _ready(server: Redis) -> None:
    deadline = monotonic() + READY_WITHIN
    while True:
        try:
            if "PONG" in server.ask("ping"):
                return
        except OSError:
            pass
        if monotonic() > deadline:
            raise RuntimeError("redis-server did not start")
        sleep(0.02)
