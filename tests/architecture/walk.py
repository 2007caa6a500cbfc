"""How far a reader walks with one job: the files it passes through from enqueue to done, on a warm worker.

    python -m tests.architecture.walk            the numbers
    python -m tests.architecture.walk --files    and each file, with its calls

Counted are calls of functions of the package, by `sys.setprofile`, in every thread. A change of file is a
call in another file than the call before it in the same thread. What goes on beside the job in any case (the
lease keeper, the ticks of wake-ups) is left out.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import duework
from duework import App

SRC = str(Path(duework.__file__).parent) + "/"
WARM = 20
# What goes on beside the job, by the names of the functions that begin it.
ASIDE = {"_serve", "_extend_if_due", "_tick", "_slow_tick", "sweep", "_now_and_then"}
# What the worker calls first once the settle has committed: the job is done.
DONE = ("worker/attempts.py", "settled")
SETTLED_SECONDS = 0.05
GROUND = {"clock.py", "codec.py", "durations.py", "errors.py", "ids.py"}


class Trail:
    """The files that calls went through, in order."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.changes = 0
        # The same without clock, codec, ids and errors, which every file uses.
        self.above_ground = 0
        self.on = False
        self._here: dict[int, str] = {}
        self._above: dict[int, str] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if not self.on or event != "call" or not name.startswith(SRC) or beside(frame):
            return
        file, thread = name.removeprefix(SRC), threading.get_ident()
        if (file, frame.f_code.co_name) == DONE:
            self.on = False
            return
        self.calls[file] += 1
        self.changes += file != self._here.get(thread)
        self._here[thread] = file
        if file not in GROUND:
            self.above_ground += file != self._above.get(thread)
            self._above[thread] = file


def beside(frame: FrameType | None) -> bool:
    """Whether a call belongs to something that goes on by itself."""
    while frame is not None:
        if frame.f_code.co_name in ASIDE and frame.f_code.co_filename.startswith(SRC + "worker/"):
            return True
        frame = frame.f_back
    return False


async def walk(url: str) -> Trail:
    """One enqueue to its end, after some others."""
    trail = Trail()
    threading.setprofile(trail)
    sys.setprofile(trail)
    app = App(url)

    @app.task
    async def greet(name: str) -> str:
        return name

    worker = app.worker()
    running = asyncio.create_task(worker.run())
    for number in range(WARM + 1):
        await asyncio.sleep(SETTLED_SECONDS)
        trail.on = number == WARM
        job = await greet.aenqueue("ada")
        await asyncio.sleep(SETTLED_SECONDS)
    trail.on = False
    assert (await app.ajob(job.id)).state == "done"
    worker.stop()
    await running
    app.close()
    sys.setprofile(None)
    threading.setprofile(None)
    return trail


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trail = asyncio.run(walk(f"sqlite:///{folder}/walk.db"))
    if "--files" in sys.argv:
        for file, count in trail.calls.most_common():
            sys.stdout.write(f"{count:5} {file}\n")
    calls = sum(trail.calls.values())
    sys.stdout.write(f"{len(trail.calls)} files, {trail.changes} changes of file, {calls} calls\n")
    above = len(trail.calls.keys() - GROUND)
    sys.stdout.write(f"above the ground: {above} files, {trail.above_ground} changes of file\n")


if __name__ == "__main__":
    main()
