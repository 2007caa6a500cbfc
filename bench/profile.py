"""Draws where the time of a drain goes: `python -m bench.profile` writes `flame.svg`.

A thread takes the stacks of all others every millisecond, while a worker in this process drains no-op
jobs, and charges each with the CPU time that its thread has used since. So waiting weighs nothing, be
it for the disk or for the other thread. It needs the interpreter's lock for that, and sees a little more
of what releases the lock; the share of each thread is exact.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from time import clock_gettime, monotonic, pthread_getcpuclockid, sleep
from types import FrameType

from bench import fill
from bench.bed import LEASED, Bed, looking, worker_env

FLAME = Path(__file__).with_name("flame.svg")
EVERY = 0.001
WIDTH = 1180
ROW = 17
# Below this many pixels a box says nothing.
NARROW = 2.0
LETTER = 6.6
WAITING = {("threading.py", "wait"), ("selectors.py", "select"), ("writer.py", "_serve")}
# What Python itself calls to get there is the same for all of them.
COMMON = (
    "runpy.",
    "<frozen",
    "threading.",
    "profile.",
    "runners.",
    "base_events.BaseEventLoop.run",
)
STYLE = """
  text { font: 11px ui-monospace, monospace; fill: #1d1d1d; pointer-events: none }
  .title { font: 600 15px system-ui, sans-serif } .page { fill: #fbfaf8 }
  .note { font: 12px system-ui, sans-serif }
  rect.box { stroke: #fbfaf8; stroke-width: .5 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #16181d } .title, .note { fill: #e8eaed } rect.box { stroke: #16181d }
  }
"""

Stack = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--output", type=Path, default=FLAME)
    options = parser.parse_args()
    bed = Bed()
    try:
        url = bed.postgres() if options.postgres else bed.sqlite()
        fill.ready(bed, url, options.jobs)
        os.environ.update(worker_env(url))
        sampler = Sampler()
        seconds = asyncio.run(_drain(url, options.jobs, sampler))
    finally:
        bed.close()
    rate = options.jobs / seconds
    title = f"{options.jobs:,} no-op jobs in {seconds:.2f} s ({rate:,.0f}/s while being watched)"
    options.output.write_text(draw(sampler.stacks, title, sampler.shares(seconds)))
    for name, share in sampler.heaviest():
        print(f"{share:6.1%}  {name}")
    print(f"{title}: {options.output}")


async def _drain(url: str, jobs: int, sampler: Sampler) -> float:
    from bench import tasks

    worker = tasks.app.worker()
    running = asyncio.create_task(worker.run())
    start = monotonic()
    sampler.start()
    while tasks.counted() < jobs:  # noqa: ASYNC110 - a no-op job that sets an event is none
        await asyncio.sleep(0.01)
    with looking(url) as look:
        while look(LEASED):  # noqa: ASYNC110 - the database sets no event either
            await asyncio.sleep(0.001)
    elapsed = monotonic() - start
    sampler.stop()
    worker.stop(grace_ms=0)
    await running
    tasks.app.close()
    return elapsed


class Sampler:
    """Charges stacks with CPU time, in microseconds, thread by thread."""

    def __init__(self) -> None:
        self.stacks: Counter[Stack] = Counter()
        self.threads: Counter[str] = Counter()
        self._used: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampler", daemon=True)

    def start(self) -> None:
        # Or a thread that computes would be seen at most every 5 ms.
        sys.setswitchinterval(EVERY / 5)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._scale()

    def _sample(self) -> None:
        me = threading.get_ident()
        while not self._over.is_set():
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():  # noqa: SLF001 - made for this
                if ident == me or ident not in names:
                    continue
                spent = self._spent(ident)
                self.threads[names[ident]] += spent
                if not _waits(frame):
                    self.stacks[(names[ident], *_stack(frame))] += spent
            sleep(EVERY)

    def _spent(self, ident: int) -> int:
        now = clock_gettime(pthread_getcpuclockid(ident))
        spent = now - self._used.get(ident, now)
        self._used[ident] = now
        return int(spent * 1e6)

    def _scale(self) -> None:
        """What a thread used before it was seen waiting belongs to the work that was seen."""
        seen: Counter[str] = Counter()
        for stack, spent in self.stacks.items():
            seen[stack[0]] += spent
        for stack in self.stacks:
            share = self.threads[stack[0]] / max(1, seen[stack[0]])
            self.stacks[stack] = int(self.stacks[stack] * share)

    def shares(self, seconds: float) -> str:
        """How much of a core each thread used."""
        busy = self.threads.most_common(3)
        return ", ".join(f"{name} {spent / 1e6 / seconds:.0%} of a core" for name, spent in busy)

    def heaviest(self, count: int = 15) -> list[tuple[str, float]]:
        """Functions by what they used themselves, without what they called."""
        leaves: Counter[str] = Counter()
        for stack, spent in self.stacks.items():
            leaves[stack[-1]] += spent
        total = self.stacks.total() or 1
        return [(name, spent / total) for name, spent in leaves.most_common(count)]


def _waits(frame: FrameType) -> bool:
    code = frame.f_code
    return (os.path.basename(code.co_filename), code.co_name) in WAITING


def _stack(frame: FrameType | None) -> Stack:
    found: list[str] = []
    while frame is not None:
        code = frame.f_code
        found.append(f"{Path(code.co_filename).stem}.{code.co_qualname}")
        frame = frame.f_back
    return tuple(name for name in reversed(found) if not name.startswith(COMMON))


@dataclass
class Node:
    """A function in the place where it was called."""

    name: str
    samples: int = 0
    inside: dict[str, Node] = field(default_factory=dict)


def draw(stacks: Counter[Stack], title: str, note: str) -> str:
    """The flame chart: callers below, what they call above them, as wide as its samples."""
    root = Node("all")
    for stack, samples in stacks.items():
        node = root
        node.samples += samples
        for name in stack:
            node = node.inside.setdefault(name, Node(name))
            node.samples += samples
    boxes = list(_boxes(root, 0, 10.0, (WIDTH - 20) / max(1, root.samples)))
    height = ROW * (max(level for level, *_ in boxes) + 1) + 78
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f'<style>{STYLE}</style><rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
        f'<text class="note" x="12" y="42">{escape(note)}</text>',
    ]
    for level, left, width, node in boxes:
        y = height - 14 - ROW * (level + 1)
        share = node.samples / max(1, root.samples)
        room = int((width - 4) / LETTER)
        label = node.name if len(node.name) <= room else node.name.rpartition(".")[2][:room]
        parts.append(
            f"<g><title>{escape(node.name)}: {share:.1%}</title>"
            f'<rect class="box" x="{left:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}"'
            f' fill="{_colour(node.name)}"/>'
            + (f'<text x="{left + 3:.1f}" y="{y + 12}">{escape(label)}</text>' if room > 2 else "")
            + "</g>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _boxes(
    node: Node, level: int, left: float, scale: float
) -> Iterator[tuple[int, float, float, Node]]:
    width = node.samples * scale
    if width < NARROW:
        return
    yield level, left, width, node
    for inner in sorted(node.inside.values(), key=lambda each: each.name):
        yield from _boxes(inner, level + 1, left, scale)
        left += inner.samples * scale


def _colour(name: str) -> str:
    """Ours, the database's, and everything else; a little different for each function."""
    module = name.partition(".")[0]
    shade = sum(name.encode()) % 12
    if module in {"writer", "sqlite", "postgres", "postgres_tx", "queries"}:
        return f"hsl(172 38% {62 + shade}%)"
    if module in {"events", "base_events", "selectors", "asyncio", "runners", "threads"}:
        return f"hsl(220 12% {72 + shade}%)"
    return f"hsl(28 78% {62 + shade}%)"


if __name__ == "__main__":
    main()
