"""What can go wrong, on demand: of our own processes, and of the world."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

from duework import App
from systems.demo.part import keep, kept, note
from systems.demo.receivers import Receivers

PATIENCE = 30.0
FREEZE_SECONDS = 20.0


def workers(app: App) -> list[Any]:
    """Living workers, the busiest first."""
    alive = [each for each in app.status().workers if each.seen == "alive"]
    return sorted(alive, key=lambda each: -each.running)


def kill_worker(app: App) -> tuple[int, dict[int, int]] | None:
    """`kill -9` to the busiest worker; its process, and the jobs that it was running, by their fences."""
    for worker in workers(app):
        running = app.jobs(phase="running", limit=500)
        held = {int(job.id): job.fence for job in running if job.worker == worker.id}
        try:
            os.kill(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        note(app, "chaos", f"worker {worker.pid} was killed while {_jobs(len(held))} ran", "failed")
        return worker.pid, held
    return None


def recovered(app: App, held: dict[int, int], since: float) -> float | None:
    """Seconds until every job of the dead worker was over or ran elsewhere; None after half a minute."""
    left = dict(held)
    while left and time.monotonic() - since < PATIENCE:
        for id_, fence in held.items():
            job = app.job(id_) if id_ in left else None
            if job is not None and (job.state != "open" or job.fence > fence):
                del left[id_]
        time.sleep(0.02)
    took = time.monotonic() - since
    if left:
        note(
            app, "chaos", f"{_jobs(len(left))} of it had not run again after {took:.0f} s", "failed"
        )
        return None
    note(app, "chaos", f"{_jobs(len(held))} of it ran again after {took:.1f} s", "done")
    keep(app, "recovery", round(max(took, kept(app, "recovery", 0.0)), 2))
    return took


def kill_and_watch(app: App) -> str:
    """Kill one, and measure how long its jobs were without a worker."""
    since = time.monotonic()
    killed = kill_worker(app)
    if killed is None:
        return "there is no worker to kill"
    took = recovered(app, killed[1], since)
    keep(app, "kills", kept(app, "kills", 0) + 1)
    return f"worker {killed[0]} killed; taken over after {took:.1f} s" if took else "not taken over"


def provider(app: App, receivers: Receivers, name: str, *, down: bool) -> None:
    """A provider answers 503 to everything until it is back."""
    receivers.faults(name, *([{"calls": "1..", "do": "status", "status": 503}] if down else []))
    keep(app, f"down:{name}", down)
    note(app, "chaos", f"{name} is {'down' if down else 'back'}", "late" if down else "done")


def lose_replies(app: App, receivers: Receivers, name: str, route: str, count: int) -> None:
    """The next calls take effect, and nobody hears of it."""
    receivers.faults(name, {"route": route, "calls": f"1..{count}", "do": "drop_after"})
    keep(app, "lost_replies", kept(app, "lost_replies", 0) + count)
    note(app, "chaos", f"{name} takes the next {count} messages and loses its replies", "unsure")


def storm(app: App, receivers: Receivers, seconds: float = 240) -> None:
    """The app market refuses every call for a while, with an empty 403."""
    receivers.switch("apple", "storm", seconds=seconds)
    note(app, "chaos", f"the app market refuses every call for {seconds / 60:g} minutes", "late")


def freeze_worker(app: App, seconds: float = FREEZE_SECONDS) -> str:
    """SIGSTOP for a while: it wakes up late, and must change nothing."""
    for worker in workers(app):
        # A process of its own: whoever asked does not wait, and may end before it does.
        words = f"kill -STOP {worker.pid}; sleep {seconds:g}; kill -CONT {worker.pid}"
        subprocess.Popen(["/bin/sh", "-c", words], start_new_session=True)  # noqa: S603 - ours
        note(app, "chaos", f"worker {worker.pid} stands still for {seconds:.0f} s", "late")
        return f"worker {worker.pid} stands still"
    return "there is no worker to freeze"


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"
