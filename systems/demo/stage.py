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
# The twins' page and the twins need ports in a row; a few more than there are.
TWINS_PORT, TWINS = 8470, 20


class StageError(Exception):
    """Something did not start; the message says what to look at."""


class Stage:
    """What is up while the demo plays."""

    def __init__(self, folder: Path, *, clock: Scaled, url: str, port: int, workers: int) -> None:
        self.folder = folder
        self.port = port if port and _free(port) else _any_port()
        self._workers = workers
        self._children: list[tuple[str, subprocess.Popen[str]]] = []
        self.environment = {
            **os.environ,
            "DUEWORK_CLOCK": str(clock),
            "DUEWORK_URL": url,
            "DUEWORK_APP": APP,
            "DUEWORK_KEY": _key(folder / "secrets.key"),
            # Links in mails, and the way back from Strava, lead to the pages wherever these are.
            "REMINDERS_BASE_URL": f"http://127.0.0.1:{self.port}",
            "STRIDES_PUBLIC_URL": f"http://127.0.0.1:{self.port}",
        }
        self.twins: dict[str, str] = {}
        self.link = ""

    def start_twins(self) -> None:
        """First of all: the others need their addresses."""
        port = str(_twins_port(self.folder / "twins.port"))
        words = ["-m", "systems.twins", "--all", "--port", port, "--json"]
        child = self._start("twins", words, read=True)
        found: dict[str, Any] = json.loads(_first_line(child, "{", self.folder / "twins.log"))
        self.twins = {name: each["url"] for name, each in found["twins"].items()}
        self.environment |= _addresses(self.twins)

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


def _any_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _key(file: Path) -> str:
    """The key that seals tokens: made at the first start, and only its owner can read it."""
    if not file.exists():
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(base64.b64encode(os.urandom(32)).decode())
    return file.read_text()


def _twins_port(file: Path) -> int:
    """The same at each start: webhook endpoints are rows, with the address that they had."""
    if file.exists():
        return int(file.read_text())
    for first in range(TWINS_PORT, TWINS_PORT + 1000, TWINS):
        if all(_free(port) for port in range(first, first + TWINS)):
            file.write_text(str(first))
            return first
    raise StageError(f"no {TWINS} ports in a row are free from {TWINS_PORT} on")


def _addresses(twins: Mapping[str, str]) -> dict[str, str]:
    """The systems' settings: each at its twins."""
    return {
        "REMINDERS_RESEND_URL": twins["resend"],
        "REMINDERS_HOOKS_URL": twins["hooks"],
        "MAILROOM_ENDPOINT": twins["acs"],
        "STREAKS_GITHUB_URL": twins["github"],
        "STREAKS_DISCORD_URL": twins["discord"],
        "STREAKS_TELEGRAM_URL": twins["telegram"],
        "STRIDES_STRAVA_URL": twins["strava"],
        "SCOUT_APPLE_URL": twins["apple"],
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
    raise StageError(f"{log.stem} did not start: see {log}")


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
