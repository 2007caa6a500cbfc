"""The live view of `duework run` on a terminal: fed by facts, redrawn at most four times a second.

The depth of the queues is the one thing it asks the database for, at most every two seconds and only
while something happens: an idle worker runs no SQL because somebody is watching it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from duework import App, DatabaseError, Status, facts
from duework.cli.jobs import OWN_QUEUE
from duework.cli.out import at_least, first_line
from duework.clock import monotonic
from duework.observe.log import escaped

EVERY = 0.25
DEPTH_EVERY = 2.0
WINDOW = 10
TASKS, ERRORS = 8, 3


class View:
    """Counts what it is told and draws it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._live = Live(
            console=Console(stderr=True, highlight=False, markup=False, emoji=False),
            auto_refresh=False,
        )
        self._running: dict[int, str] = {}
        self._ended: Counter[tuple[str, str]] = Counter()
        self._per_second: deque[tuple[int, int]] = deque(maxlen=WINDOW + 1)
        self._errors: deque[str] = deque(maxlen=ERRORS)
        self._trouble: str | None = None
        self._depth: Status | None = None
        self._changed = True
        self._stale = True
        self._task: asyncio.Task[None] | None = None

    def see(self, fact: facts.Fact) -> None:
        """The hook: cheap, and called from any thread."""
        self._changed = self._stale = True
        match fact:
            case facts.JobStarted():
                self._running[fact.job] = fact.task
            case facts.JobSettled():
                self._running.pop(fact.job, None)
                self._ended[fact.task, fact.kind] += 1
                self._count()
                if fact.kind in {"failed", "retry", "crashed"}:
                    self._errors.append(
                        f"{fact.task} {fact.job}: {first_line(fact.error) or fact.kind}"
                    )
            case facts.LeaseWasLost():
                self._running.pop(fact.job, None)
            case facts.Parked():
                self._trouble = fact.why
            case facts.Resumed():
                self._trouble = None

    def _count(self) -> None:
        second = int(monotonic())
        if self._per_second and self._per_second[-1][0] == second:
            self._per_second[-1] = (second, self._per_second[-1][1] + 1)
        else:
            self._per_second.append((second, 1))

    async def start(self) -> None:
        self._live.start()
        self._task = asyncio.create_task(self._draw_forever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._live.update(self.picture())
        self._live.stop()

    async def _draw_forever(self) -> None:
        looked, drawn = 0.0, 0.0
        while True:
            if self._stale and monotonic() - looked > DEPTH_EVERY:
                looked, self._stale = monotonic(), False
                with contextlib.suppress(DatabaseError):
                    self._depth = await asyncio.to_thread(self._app.status)
                self._changed = True
            rate = self._rate()
            if self._changed or rate != drawn:
                self._changed, drawn = False, rate
                self._live.update(self.picture(), refresh=True)
            await asyncio.sleep(EVERY)

    def _rate(self) -> float:
        """Jobs per second over the last full seconds."""
        now = int(monotonic())
        return (
            sum(count for second, count in self._per_second if now - WINDOW <= second < now)
            / WINDOW
        )

    def picture(self) -> Group:
        """What is drawn, 80 columns wide or more."""
        totals: Counter[str] = Counter()
        for (_, kind), count in self._ended.items():
            totals[kind] += count
        line = f"{len(self._running)} running  {self._rate():.1f} jobs/s  {totals['done']} done"
        line += f"  {totals['retry']} retried  {totals['failed']} failed"
        if self._depth is not None:
            theirs = [each for each in self._depth.tasks if each.queue != OWN_QUEUE]
            ready = sum(each.ready for each in theirs)
            waiting = sum(each.waiting for each in theirs)
            line += f"  |  {at_least(ready)} ready  {at_least(waiting)} waiting"
        parts: list[Text | Table] = [Text(line, style="bold", no_wrap=True, overflow="ellipsis")]
        if self._trouble is not None:
            parts.append(_line(self._trouble, "red"))
        if self._ended or self._running:
            parts.append(self._tasks())
        parts += [_line(error, "red") for error in self._errors]
        return Group(*parts)

    def _tasks(self) -> Table:
        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("task", no_wrap=True, overflow="ellipsis")
        for name in ("running", "done", "retried", "failed"):
            table.add_column(name, justify="right", no_wrap=True)
        running = Counter(list(self._running.values()))
        names = Counter(running)
        for (task, _), count in list(self._ended.items()):
            names[task] += count
        for task, _ in names.most_common(TASKS):
            counts = [self._ended[task, kind] for kind in ("done", "retry", "failed")]
            table.add_row(*(Text(escaped(str(v))) for v in (task, running[task], *counts)))
        return table


def _line(text: str, style: str) -> Text:
    return Text(escaped(text), style=style, no_wrap=True, overflow="ellipsis")
