"""Hand-offs are optional: without their folder workers are rung, and everything is done as well."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import duework

pytestmark = pytest.mark.slow

PROGRAM = """
import os
from duework import App

app = App(os.environ["DUEWORK_URL"])

@app.task
def note(number: int) -> list[int]:
    return [number, os.getpid()]
"""

ENQUEUE = """
import json, os
from importlib.util import find_spec
from program import app, note

found = [note.enqueue(number).wait("20s").result for number in range(3)]
here = note.enqueue(3)
async def work():
    async with app.running():
        return (await here.await_("20s")).result
import asyncio
found.append(asyncio.run(work()))
optional = find_spec("duework.worker.handoff") is not None
print(json.dumps({"found": found, "pid": os.getpid(), "optional": optional}))
app.close()
"""


def _package_without(folder: Path, room: str) -> None:
    package = Path(duework.__file__).parent
    shutil.copytree(package, folder / "duework", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(folder / "duework" / room)


def test_workers_of_two_processes_do_without_hand_offs(url: str, tmp_path: Path) -> None:
    _package_without(tmp_path, "worker/handoff")
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "DUEWORK_URL": url}
    run = [sys.executable, "-m", "duework", "run", "program:app"]
    worker = subprocess.Popen(run, env=env, cwd=tmp_path)
    try:
        command = [sys.executable, "-c", ENQUEUE]
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
        )
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)

    said = json.loads(done.stdout)
    numbers, pids = zip(*said["found"], strict=True)
    assert not said["optional"]
    assert numbers == (0, 1, 2, 3)
    assert set(pids[:3]) == {worker.pid}
    assert set(pids) <= {worker.pid, said["pid"]}
    assert worker.returncode == 0
