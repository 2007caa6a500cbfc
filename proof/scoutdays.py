"""Scout left alone for days: all five stages, a model that debates, faults, and workers that die.

python -m proof.scoutdays --apps 300 --hours 144     another size than those of the proof
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from unittest.mock import patch

from duework import App, Secret
from duework.testing import Harness
from proof.section import Result, Scale, Section, tell
from systems.scout import app
from systems.scout.crawl import categories
from systems.scout.economy import ledger
from systems.scout.economy.tokens import Answer, price
from systems.scout.part import part
from systems.scout.settings import Settings
from systems.twins import Twins, twins

HOUR = 3_600_000
# What models may cost a day, in millionths of a dollar: too little for every debate.
LIMIT = 4_000
AT_ONCE = 8
APPLE: list[dict[str, Any]] = [
    {"route": "*", "calls": "1%", "do": "status", "status": 403},
    {"route": "*", "calls": "1%", "do": "status", "status": 500},
    {"route": "*", "calls": "1%", "do": "drop_after"},
]
CHAT: list[dict[str, Any]] = [
    # Lost for certain, since a planted bug shows in nothing else.
    {"route": "*", "calls": "3", "do": "drop_after"},
    {"route": "*", "calls": "5%", "do": "status", "status": 429},
    {"route": "*", "calls": "3%", "do": "status", "status": 500},
    {"route": "*", "calls": "3%", "do": "drop_after"},
    {"route": "*", "calls": "3%", "do": "malformed"},
    {"route": "*", "calls": "3%", "do": "cut"},
]


@dataclass(frozen=True)
class Size:
    """How many apps there are, for how long, and how often a worker dies."""

    apps: int
    hours: int
    kills: int
    # The least that has to come of it.
    opportunities: int


SIZES: dict[Scale, Size] = {
    "short": Size(apps=120, hours=13, kills=13, opportunities=1),
    "full": Size(apps=3000, hours=144, kills=144, opportunities=20),
}


@contextmanager
def shop(size: Size, seed: int) -> Iterator[tuple[App, Harness, Twins]]:
    """Scout with Apple and a model."""
    with Harness(app) as h, twins(h.clock, "apple", "chat", seed=seed) as t:
        t.apple.count = size.apps
        t.apple.faults.set(APPLE, seed)
        t.chat.set_limits(10**6, 10**9)
        t.chat.faults.set(CHAT, seed)
        given = Settings(
            apple_url=t.apple.url, llm_url=f"{t.chat.url}/v1", llm_key=Secret("sk-demo")
        )
        with patch.object(part, "_settings", given):
            ledger.LLM.raise_to(ledger.as_dollars(LIMIT))
            with app.transaction() as tx:
                categories.add(tx)
            yield app, h, t


def run(scale: Scale, seed: int) -> Result:
    return leave_alone(SIZES[scale], seed)


def leave_alone(size: Size, seed: int) -> Result:
    """Let it live, and compare its ledger with the books of those whom it has asked."""
    result = Result(seed=seed)
    with shop(size, seed) as (app, h, t):
        live(h, size, random.Random(seed), result)
        t.chat.faults.set([])
        judge(app, t, size, result)
        result.planted["a lost reply costs nothing"] = _finds(
            app, t, "update scout_cost set cost = 0 where state = 'unsure'"
        )
        result.planted["a day above its budget"] = _finds(
            app, t, f"update scout_cost_day set cost = cost + {LIMIT} where service = 'llm'"
        )
        result.planted["a call that nobody counted"] = _finds(
            app, t, "update scout_cost_day set calls = 1 where service = 'http'"
        )
    return result


def live(h: Harness, size: Size, draw: random.Random, result: Result) -> None:
    """Hour by hour; in each a worker dies somewhere."""
    start = h.now
    result.counts["workers that died"] = 0
    for hour in range(size.hours):
        tell("hours", hour, size.hours)
        for _ in range(max(1, size.kills // size.hours)):
            # To whatever is due next: a worker without work cannot die of it.
            h.clock.move_to(max(h.now, min(h.drain(), start + (hour + 1) * HOUR)))
            result.count("workers that died", int(h.crash_worker(at=draw.randrange(1, 8))))
        h.advance((start + (hour + 1) * HOUR - h.now) / 1000)


def judge(app: App, t: Twins, size: Size, result: Result) -> None:
    """By the books of both twins."""
    result.violations += wrong(app, t, int(result.counts["workers that died"]))
    stages = {
        "apps found": "select count(*) as n from scout_app",
        "apps looked up": "select count(*) as n from scout_app where enriched_at is not null",
        "apps scored": "select count(*) as n from scout_app where evaluated_at is not null",
        "clusters": "select count(*) as n from scout_cluster",
        "opportunities": "select count(*) as n from scout_opportunity",
        "debates": "select count(*) as n from scout_debate_report",
        "turns by the model": "select count(*) as n from scout_debate_message where analyst <> 'rules'",
        "questions": "select count(*) as n from scout_cost",
        "questions of unknown cost": "select count(*) as n from scout_cost where state = 'unsure'",
    }
    result.counts |= {name: int(app.read(sql)[0].n) for name, sql in stages.items()}
    result.counts["spent, in millionths of a dollar"] = _spent(app)
    result.counts["billed by the provider"] = _billed(t)
    result.floors = {
        **dict.fromkeys(("apps found", "apps looked up", "apps scored"), size.apps // 2),
        "opportunities": size.opportunities,
        "turns by the model": 1,
        "workers that died": size.kills // 6,
    }


def wrong(app: App, t: Twins, kills: int) -> list[str]:
    """Everything in which the ledger and the books differ."""
    found = []
    spent, billed = _spent(app), _billed(t)
    known = _spent(app, "state = 'settled'")
    if not known <= billed <= spent:
        found.append(f"the provider has billed {billed}; {known} are known, {spent} counted")
    days = app.read("select day, cost from scout_cost_day where service = 'llm'")
    if sum(row.cost for row in days) != spent:
        found.append("the days and the questions have other sums")
    found += [f"{row.cost} were spent on {row.day}" for row in days if row.cost > LIMIT]
    for name, calls in (("apple", t.apple.log.calls), ("llm", t.chat.log.calls)):
        [row] = app.read(
            "select coalesce(sum(calls), 0) as n from scout_cost_day"
            " where service = 'http' and what = :name",
            name=name,
        )
        if not calls <= row.n <= calls + kills * AT_ONCE:
            found.append(f"{name} was asked {calls} times, and {row.n} are counted")
    failed = app.jobs(task="scout.opportunity", phase="failed", limit=5)
    found += [f"job {job.id} of {job.task} has failed: {job.error}" for job in failed]
    return found


def _spent(app: App, where: str = "1 = 1") -> int:
    [row] = app.read(f"select coalesce(sum(cost), 0) as n from scout_cost where {where}")
    return int(row.n)


def _billed(t: Twins) -> int:
    books = t.chat.ledger.of("completion")
    return sum(
        price(
            Answer(prompt=each["prompt_tokens"], completion=each["completion_tokens"]),
            part.settings,
        )
        for each in books
    )


def _finds(app: App, t: Twins, sql: str) -> bool:
    """Whether what a statement spoils is seen; it is undone after that."""
    before = wrong(app, t, 0)
    with _spoiled(app, sql):
        return len(wrong(app, t, 0)) > len(before)


@contextmanager
def _spoiled(app: App, sql: str) -> Iterator[None]:
    saved = {
        table: app.read(f"select * from {table}") for table in ("scout_cost", "scout_cost_day")
    }
    with app.transaction() as tx:
        tx.write(sql)
    try:
        yield
    finally:
        with app.transaction() as tx:
            for table, rows in saved.items():
                _put_back(tx.write, table, rows)


def _put_back(write: Callable[..., Any], table: str, rows: list[Any]) -> None:
    write(f"delete from {table}")
    if rows:
        names = list(rows[0]._asdict())
        marks = ", ".join(f":{name}" for name in names)
        write(
            f"insert into {table} ({', '.join(names)}) values ({marks})",
            rows=[row._asdict() for row in rows],
        )


SECTION = Section(
    name="scoutdays",
    title="Scout left alone for days",
    promise=(
        "With faults of the App Store and of a model, and workers that die, all five stages go on; models"
        " cost no more than their budget on any day, and the ledger equals the provider's books but for"
        " replies that were lost, which count in full."
    ),
    run=run,
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m proof.scoutdays")
    parser.add_argument("--apps", type=int, default=300)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    result = leave_alone(Size(given.apps, given.hours, given.kills, 1), given.seed)
    print(json.dumps({**asdict(result), "problems": result.problems()}, indent=2))


if __name__ == "__main__":
    main()
