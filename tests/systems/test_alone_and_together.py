"""Each system by itself and all of them in one process, with real workers, on both databases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APPS = [
    "systems.streaks:app",
    "systems.mailroom:app",
    "systems.reminders:app",
    "systems.strides:app",
    # Scout by itself is in test_one_command.py.
    "systems.app:app",
    "systems.demo.app:app",
]
SECONDS = 30


def ask(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "duework", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", APPS)
def test_a_system_starts_works_and_stops(name: str, url: str, tmp_path: Path) -> None:
    environment = {**os.environ, "DUEWORK_URL": url, "DUEWORK_KEY": "A" * 43 + "="}
    log = tmp_path / "log"
    with log.open("w") as out:
        worker = subprocess.Popen(
            [sys.executable, "-m", "duework", "run", name, "--no-view"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + SECONDS
        while " started: pid" not in log.read_text():
            assert worker.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        checked = ask(environment, "verify", "--app", name)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(SECONDS)
    assert worker.returncode == 0, log.read_text()
