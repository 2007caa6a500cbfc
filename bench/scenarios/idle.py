"""What does a worker cost that has nothing to do, over a million jobs that are due later?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from bench import fill
from bench.bed import Bed, Talker, looking
from bench.figures import Figure, at_most

QUESTION = "What does a worker cost that has nothing to do?"
FIGURES = (
    Figure("idle_cpu", "idle over 1 M later-due jobs: CPU", "% of a core", (at_most(0.3),)),
    Figure("idle_statements", "idle: SQL statements", "statements", (at_most(0),)),
    Figure("idle_looks", "idle: looks at data_version, per second", "/s"),
    Figure("idle_rss", "idle: resident memory", "MB", (at_most(60),)),
    Figure("pg_idle_cpu", "PostgreSQL, idle over 100 k: CPU of the worker", "% of a core"),
    Figure(
        "pg_idle_transactions", "PostgreSQL, idle: transactions (autovacuum's too)", "statements"
    ),
    Figure("pg_idle_rss", "PostgreSQL, idle: resident memory", "MB"),
)

TRANSACTIONS = """
select xact_commit + xact_rollback from pg_stat_database where datname = '{name}'
"""


@dataclass(frozen=True)
class Look:
    """What a process has used so far."""

    at: float
    cpu: float


def sample(bed: Bed) -> dict[str, float]:
    url = bed.once("1m_later", lambda: later(bed, bed.sqlite(), bed.scaled(1_000_000, 100_000)))
    server = bed.once("pg_later", lambda: later(bed, bed.postgres(), bed.scaled(100_000, 10_000)))
    with (
        bed.worker(url, concurrency=100) as worker,
        # Counting costs something itself, so it is another worker whose statements are counted.
        bed.worker(url, statements=True, concurrency=100) as twin,
        bed.worker(server, concurrency=100) as other,
    ):
        for each in (worker, twin, other):
            each.go()
        # What happens once, at the start, is not idling.
        sleep(2)
        before, other_before = _used(worker), _used(other)
        counted, transactions = _counted(twin), _transactions(bed, server)
        sleep(bed.scaled(30, 10))
        after, other_after = _used(worker), _used(other)
        later_counted, later_transactions = _counted(twin), _transactions(bed, server)
        told = {
            "idle_cpu": _share(before, after),
            "idle_statements": later_counted["statements"] - counted["statements"],
            "idle_looks": (later_counted["looks"] - counted["looks"]) / (after.at - before.at),
            "idle_rss": _resident(worker),
            "pg_idle_cpu": _share(other_before, other_after),
            "pg_idle_transactions": later_transactions - transactions,
            "pg_idle_rss": _resident(other),
        }
        for each in (worker, twin, other):
            each.stop()
    return told


def later(bed: Bed, url: str, rows: int) -> str:
    fill.lying(bed, url, rows, "later")
    return url


def _used(process: Talker) -> Look:
    """By the scheduler's own clock, in nanoseconds, of all threads."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    spent = [int((thread / "schedstat").read_text().split()[0]) for thread in threads]
    return Look(monotonic(), sum(spent) / 1e9)


def _share(before: Look, after: Look) -> float:
    return (after.cpu - before.cpu) / (after.at - before.at) * 100


def _counted(process: Talker) -> dict[str, int]:
    process.tell("count")
    told: dict[str, int] = process.listen()
    return told


def _resident(process: Talker) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("every process has a VmRSS")


def _transactions(bed: Bed, url: str) -> int:
    """Asked in another database: a look must not count itself."""
    with looking(bed.server.dsn) as look:
        return int(look(TRANSACTIONS.format(name=url.rpartition("/")[2]))[0][0])
