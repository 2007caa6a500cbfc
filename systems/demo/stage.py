"""The stage: the processes of a demo, started together and stopped together.

Twins, workers and the pages are programs that anybody can start by hand; here they share a clock, a
database and a folder.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from duework import Scaled

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
STOPPING = 35.0
APP = "systems.demo.app:app"
# The twins' page and the twins need ports in a row, and SMTP has one further on.
TWINS_PORT, TWINS, SMTP = 8470, 11, 51
NEXT_ROW, LAST_PORT = 20, 9470


class StageError(Exception):
    """Something did not start; the message says what to look at."""


class Stage:
    """What is up while the demo plays."""

    def __init__(self, folder: Path, *, clock: Scaled, url: str, port: int, workers: int) -> None:
        self.folder = folder
        self.port, self.remark = _port_of_pages(port)
        self._workers = workers
        self._children: list[tuple[str, subprocess.Popen[str]]] = []
        self.environment = {
            **os.environ,
            "DUEWORK_CLOCK": str(clock),
            "DUEWORK_URL": url,
            "DUEWORK_APP": APP,
            "DUEWORK_KEY": _key(folder / "secrets.key"),
            **_links(self.port),
        }
        self.twins: dict[str, str] = {}
        self.link = ""

    def start_twins(self) -> None:
        """First of all: the others need their addresses."""
        port = str(self.first_of_twins())
        words = ["-m", "systems.twins", "--all", "--port", port, "--json"]
        child = self._start("twins", words, read=True)
        found: dict[str, Any] = json.loads(_first_line(child, "{", self.folder / "twins.log"))
        self.twins = {name: each["url"] for name, each in found["twins"].items()}
        self.environment |= addresses(self.twins)

    def first_of_twins(self) -> int:
        """The same at each start: webhook endpoints are rows, with the address that they had."""
        file = self.folder / "twins.port"
        if file.exists():
            return _kept(int(file.read_text()), self.port)
        for first in range(TWINS_PORT, LAST_PORT, NEXT_ROW):
            ports = ports_of_twins(first)
            if self.port not in ports and all(map(_free, ports)):
                file.write_text(str(first))
                return first
        raise StageError(f"no {TWINS} ports in a row are free from {TWINS_PORT} on")

    def start_work(self) -> None:
        """The workers, and the pages; the latter give a link that signs in."""
        count = str(self._workers)
        log = ["--log-level", "warning", "--no-view"]
        self._start("workers", ["-m", "duework", "run", APP, "--processes", count, *log])
        pages = ["-m", "duework", "web", APP, "--port", str(self.port)]
        child = self._start("pages", pages, read=True)
        line = _first_line(child, "Sign in", self.folder / "pages.log")
        found = re.search(r"http://\S+", line)
        self.link = found[0] if found else line

    def fell_over(self) -> str | None:
        """Which of them ended by itself, if any."""
        for name, child in self._children:
            if child.poll() is not None:
                return f"{name} ended with {child.returncode}: see {self.folder / name}.log"
        return None

    def stop(self) -> None:
        """Workers first, then those that they talk to."""
        for name, child in reversed(self._children):
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            if name == "workers":
                _wait(child)
        for _, child in self._children:
            _wait(child)

    def _start(self, name: str, words: list[str], *, read: bool = False) -> subprocess.Popen[str]:
        log = (self.folder / f"{name}.log").open("a")
        child = subprocess.Popen(  # noqa: S603 - our own programs
            [sys.executable, *words],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if read else log,
            stderr=log,
            text=True,
            # Ctrl-C is the director's alone.
            start_new_session=True,
        )
        log.close()
        self._children.append((name, child))
        return child


@contextlib.contextmanager
def standing(stage: Stage) -> Iterator[Stage]:
    """A stage that is taken down whatever happens on it."""
    try:
        yield stage
    finally:
        stage.stop()


def _key(file: Path) -> str:
    """The key that seals tokens: made at the first start, and only its owner can read it."""
    if not file.exists():
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(base64.b64encode(os.urandom(32)).decode())
    return file.read_text()


def ports_of_twins(first: int) -> list[int]:
    """Those that they listen at."""
    return [*range(first, first + TWINS), first + SMTP]


def _kept(first: int, pages: int) -> int:
    """The first port of the last run, if the twins can still have it."""
    ports = ports_of_twins(first)
    if pages in ports:
        problem = f"port {pages} is one of the stand-ins' ({first} to {first + TWINS - 1}, {first + SMTP})"
        raise StageError(f"{problem}: choose another by --port, or begin anew by --reset")
    if taken := [port for port in ports if not _free(port)]:
        problem = f"port {taken[0]} of the stand-ins is taken, perhaps by another demo"
        raise StageError(f"{problem}: stop what listens there, or begin anew by --reset")
    return first


def _port_of_pages(wanted: int) -> tuple[int, str]:
    """The port, known before anything starts, since links name it; and a remark if it is another one."""
    if wanted and _free(wanted):
        return wanted, ""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    advice = f'so the pages are at {port}; choose another by DEMO_ARGS="--port 9000".'
    return port, f"Port {wanted} is taken, {advice}" if wanted else ""


def _links(port: int) -> dict[str, str]:
    """Where mails and other systems lead back to."""
    pages = f"http://127.0.0.1:{port}"
    return {"REMINDERS_BASE_URL": pages, "STRIDES_PUBLIC_URL": pages}


def addresses(twins: Mapping[str, str]) -> dict[str, str]:
    """The systems' settings: each at its twins."""
    return {
        "REMINDERS_RESEND_URL": twins["resend"],
        "REMINDERS_HOOKS_URL": twins["hooks"],
        "MAILROOM_ENDPOINT": twins["acs"],
        "STREAKS_GITHUB_URL": twins["github"],
        "STREAKS_LOGIN_URL": twins["github"],
        "STREAKS_DISCORD_URL": twins["discord"],
        "STREAKS_TELEGRAM_URL": twins["telegram"],
        "STRIDES_STRAVA_URL": twins["strava"],
        "SCOUT_APPLE_URL": twins["apple"],
        "SCOUT_RESEND_URL": twins["resend"],
        "SCOUT_LLM_URL": f"{twins['chat']}/v1",
        "SCOUT_LLM_KEY": "sk-demo",
        "DEMO_TWINS": json.dumps(dict(twins)),
    }


def _first_line(child: subprocess.Popen[str], start: str, log: Path) -> str:
    assert child.stdout is not None
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        line = child.stdout.readline()
        if not line:
            break
        if line.startswith(start):
            return line.strip()
    raise StageError(f"{log.stem} did not start{_reason(log)}: see {log}")


def _reason(log: Path) -> str:
    """The last thing that it said."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    said = [line.removeprefix("Error: ").strip() for line in lines if line.strip()]
    return f" ({said[-1]})" if said else ""


def _wait(child: subprocess.Popen[str]) -> None:
    try:
        child.wait(STOPPING)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
