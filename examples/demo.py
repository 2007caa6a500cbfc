"""What `make demo` shows: jobs of every kind, two workers, and a kill -9 in the middle.

Takes about ten seconds, ends by itself or on Ctrl-C, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from duework import App, Run, Snooze, facts

ADDRESS = "DUEWORK_DEMO_URL"
KILL_AFTER = 2.0
LONGEST = 60.0
PHASES = ("waiting", "ready", "running", "expired", "done", "failed", "cancelled")
COLOURS = dict(zip(PHASES, ("blue", "cyan", "yellow", "red", "green", "red", "magenta")))  # noqa: B905 - of one length

if __name__ == "__main__" and ADDRESS not in os.environ:
    # The other worker is this program again: it finds the database by the same variable.
    os.environ[ADDRESS] = f"sqlite:///{Path(tempfile.mkdtemp(prefix='duework-demo-'), 'demo.db')}"
app = App(os.environ.get(ADDRESS), concurrency=8, threads=2, processes=2)


@app.task
async def greet(run: Run, name: str) -> str:
    await asyncio.sleep(0.2)
    # Written with the outcome, in one commit: the final count shows that it happens once.
    run.write("insert into greeted(job) values (:job)", job=run.job.id)
    return f"hello {name}"


@app.task(retries=5, backoff="300ms")
async def flaky(run: Run, number: int) -> int:
    await asyncio.sleep(0.05)
    if run.attempt <= number % 3:
        raise ConnectionError("no route to host")
    return run.attempt


@app.task
def resize(number: int) -> int:
    time.sleep(0.05)
    return number


@app.task
async def later(run: Run) -> str | Snooze:
    first_time = run.now < run.slot + 1500
    return Snooze("2s") if first_time else "woke up"


@app.task(isolation="process", timeout="10s", memory_mb=2048)
def render(number: int) -> int:
    return sum(each * each for each in range(number))


@app.task(isolation="process")
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class View:
    """What is on the screen: phases by task, throughput, and what happened lately."""

    def __init__(self) -> None:
        self.phases: dict[str, Counter[str]] = {}
        self.events: deque[str] = deque(maxlen=9)
        self.rates: deque[int] = deque(maxlen=60)
        self.recovered = self.retries = 0
        self.recovered_at: float | None = None
        self._done = 0
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        self.events.append(f"[dim]{time.monotonic() - self._start:5.1f}s[/dim]  {text}")

    def look(self) -> None:
        """Ask the database, as anybody may at any time."""
        found: dict[str, Counter[str]] = {}
        before = 2**62
        while page := app.jobs(before=before, limit=500):
            before = page[-1].id
            for job in page:
                found.setdefault(job.task, Counter())[job.phase] += 1
        found.pop("duework.prune", None)
        self.phases = found
        done = self.total("done")
        self.rates.append(done - self._done)
        self._done = done

    def total(self, *phases: str) -> int:
        return sum(counts[phase] for counts in self.phases.values() for phase in phases)

    @property
    def open(self) -> int:
        return self.total("waiting", "ready", "running", "expired")

    def on_fact(self, fact: facts.Fact) -> None:
        """This process's own worker tells what it did."""
        match fact:
            case facts.LeaseRecovered():
                self.recovered += 1
                self.recovered_at = self.recovered_at or time.monotonic()
                self.say(f"[yellow]took over[/yellow] job {fact.job} of the dead worker")
            case facts.JobSettled(kind="retry"):
                self.retries += 1
                if self.retries % 10 == 1:
                    self.say(f"[blue]retry[/blue] {fact.task}, as {self.retries - 1} before it")
            case facts.JobSettled(kind="failed" | "crashed"):
                self.say(f"[red]{fact.kind}[/red] {fact.task}: {fact.error}")

    def __rich__(self) -> Group:
        table = Table(expand=True, box=None, header_style="bold")
        table.add_column("task")
        for phase in PHASES:
            table.add_column(phase, justify="right", style=COLOURS[phase])
        for task, counts in sorted(self.phases.items()):
            table.add_row(task, *(str(counts[phase] or "") for phase in PHASES))
        table.add_row("all", *(str(self.total(phase) or "") for phase in PHASES), style="bold")
        top = max(self.rates, default=0) or 1
        bars = "".join("▁▂▃▄▅▆▇█"[min(7, 8 * rate // (top + 1))] for rate in self.rates)
        per_second = 5 * (self.rates[-1] if self.rates else 0)
        events = Text.from_markup("\n".join(self.events))
        return Group(
            Panel(table, title="jobs by phase"),
            Panel(Text(f"{bars}  {per_second}/s", style="green"), title="done"),
            Panel(events, title="lately", height=11),
        )


def enqueue() -> int:
    with app.transaction() as tx:
        tx.write("create table greeted(job integer not null)")
        tx.enqueue(later.using(delay="1s"))
    greet.enqueue_many([(f"guest {number}",) for number in range(240)])
    flaky.enqueue_many([(number,) for number in range(40)])
    resize.enqueue_many([(number,) for number in range(40)])
    render.enqueue_many([(100_000,) for _ in range(6)])
    crash.enqueue()  # fails for good at its third crash; nobody else is harmed
    return 1 + 240 + 40 + 40 + 6 + 1


async def another_worker() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "worker"), stdout=asyncio.subprocess.PIPE
    )


async def show(view: View, live: Live) -> float | None:
    """Watch until all is settled; kill the other worker on the way. How long recovery took."""
    other = await another_worker()
    assert other.stdout is not None
    await other.stdout.readline()
    view.say(f"another worker started, process {other.pid}")
    start, killed_at = time.monotonic(), None
    try:
        while time.monotonic() - start < LONGEST:
            await asyncio.to_thread(view.look)
            live.refresh()
            if killed_at is None and time.monotonic() - start > KILL_AFTER:
                other.kill()
                killed_at = time.monotonic()
                view.say(f"[bold red]kill -9 {other.pid}[/bold red], in the middle of its jobs")
            if killed_at is not None and not view.open:
                break
            await asyncio.sleep(0.2)
    finally:
        with contextlib.suppress(ProcessLookupError):
            other.kill()
        await other.wait()
    if killed_at is None or view.recovered_at is None:
        return None
    return view.recovered_at - killed_at


def summary(console: Console, view: View, enqueued: int, recovery: float | None) -> bool:
    greeted = app.read("select count(*) as n, count(distinct job) as jobs from greeted")[0]
    lost = enqueued - sum(counts.total() for counts in view.phases.values())
    good = not view.open and lost == 0 and greeted.n == greeted.jobs == view.phases["greet"]["done"]
    console.print(
        f"\n{enqueued} jobs enqueued, {view.total('done')} done, {view.total('failed')} failed"
        f" (a task that kills its own process three times), {lost} lost."
    )
    if recovery is not None:
        console.print(
            f"The killed worker held {view.recovered} jobs;"
            f" the first was taken over {recovery * 1000:.0f} ms after the kill."
        )
    console.print(f"{greeted.n} greetings written for {greeted.jobs} jobs: each exactly once.")
    return good


async def demo(console: Console) -> bool:
    view = View()
    app.on_fact(view.on_fact)
    enqueued = await asyncio.to_thread(enqueue)
    view.say(f"{enqueued} jobs enqueued")
    async with app.running():
        with Live(view, console=console, auto_refresh=False) as live:
            recovery = await show(view, live)
    return summary(console, view, enqueued, recovery)


async def work() -> None:
    async with app.running():
        print("working", flush=True)
        await asyncio.Event().wait()


def main() -> int:
    # What fails here does so on purpose, and is shown below.
    logging.getLogger("duework").setLevel(logging.CRITICAL)
    if sys.argv[1:] == ["worker"]:
        asyncio.run(work())
        return 0
    console = Console()
    try:
        good = asyncio.run(demo(console))
    except KeyboardInterrupt:
        console.print("stopped; nothing is left behind")
        return 130
    finally:
        app.close()
        shutil.rmtree(Path(os.environ[ADDRESS].removeprefix("sqlite:///")).parent)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
