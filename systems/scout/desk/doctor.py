"""Is scout fit to be left alone? The gate before a deploy: what is declared, what it makes, what it costs.

Every schedule has an owner, a check that finds out cheaply that there is nothing to do, and a written reason;
all five stages have made something; the status routes answer. What is not well says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from duework import Check, Error
from duework.health.status import stuck
from duework.health.words import moment
from duework.shapes.schedules.cron_words import cron_words
from systems.scout import reading
from systems.scout.desk import figures, steering
from systems.scout.economy import ceiling, ledger
from systems.scout.part import part, settings

EACH_MINUTE = re.compile(r"(\*|\*/1|0-59)(/1)?\s")
SCHEDULES = (
    "select key, rule, owner, why, idle from duework_schedule where key like 'scout.%' order by key"
)
ORDER = ("problem", "warning", "ok")
LOCAL = ("http://127.0.0.1", "http://localhost")


def doctor(now: int) -> list[Check]:
    """Look at everything once; nothing is changed."""
    rows = part.app.read(SCHEDULES)
    return [
        answers(),
        working(),
        *declared(rows),
        first_deploy(rows),
        ceilings(now),
        output(reading.pipeline_test()),
        figures_kept(now),
        upstream(settings().apple_url),
        *work(),
    ]


def answers() -> Check:
    """Whether what the smoke script asks for can be answered at all."""
    asked: dict[str, Callable[[], Any]] = {
        "/v1/health": reading.health,
        "/v1/crawl/status": reading.crawl_status,
        "/v1/enrichment/status": reading.controller,
    }
    for path, answer in asked.items():
        try:
            answer()
        except Error as error:
            advice = f"{path} fails: {error}"
            return Check("smoke test", f"{path} does not answer", "problem", advice)
    return Check("smoke test", f"{len(asked)} routes answer; over the network: duework scout smoke")


def working() -> Check:
    """Whether somebody does what is due: a crash at night is seen here, and at `/health`."""
    found = stuck(part.app.admin.status(own=True))
    waits = [(line.free_for or 0, line.task) for line in found if "scout." in line.task]
    if not waits:
        return Check("workers", "nothing waits for one")
    longest, task = max(waits)
    said = f"{task.removeprefix('duework.fire:')} could have run {longest // 60_000:,} min ago"
    return Check("workers", said, "problem", "nobody works: duework run systems.scout:app")


def declared(rows: list[Any]) -> Iterator[Check]:
    """What every schedule has to say of itself."""
    if not rows:
        advice = "start a worker once: duework run systems.scout:app"
        yield Check("schedules", "none: no worker has started yet", "problem", advice)
        return
    said = f"{len(rows)} schedules"
    yield _all("owners", said, [row for row in rows if not row.owner], "owner=")
    yield _all("exit conditions", said, [row for row in rows if not row.idle], "idle=")
    yield _all("intervals have a reason", said, [row for row in rows if not row.why], "why=")
    often = [row for row in rows if EACH_MINUTE.match(f"{row.rule} ")]
    yield _all("none runs each minute", said, often, "a longer interval")


def _all(name: str, said: str, lacking: list[Any], what: str) -> Check:
    if not lacking:
        return Check(name, said)
    keys = ", ".join(row.key for row in lacking[:3])
    return Check(name, f"{len(lacking)} of {said}", "problem", f"{keys}: give it {what}")


def first_deploy(rows: list[Any]) -> Check:
    """What was deployed: which crons, and how often they look in a month."""
    looks = sum(in_a_month(row.rule) for row in rows)
    named = ", ".join(f"{row.key.removeprefix('scout.')} {cron_words(row.rule)}" for row in rows)
    return Check("what runs", f"{looks:,} looks a month at most: {named or 'nothing yet'}")


def in_a_month(rule: str) -> int:
    """How often a cron of minutes and hours fires in 30 days."""
    minute, hour = rule.split()[:2]
    return 30 * _times(minute, 60) * _times(hour, 24)


def _times(field: str, of: int) -> int:
    if field.startswith("*"):
        return of // int(field.partition("/")[2] or 1)
    return len(field.split(","))


def ceilings(now: int) -> Check:
    """What it may cost, and whether it does."""
    status = ledger.LLM.status()
    cycles, skipped = ceiling.used(part.app.read, now)
    said = f"${status.spent:.2f} of ${status.limit:.2f} today, {cycles:,} of {ceiling.most_cycles():,} cycles"
    if skipped:
        advice = "it goes on next month, or with a larger SCOUT_CEILING_ROWS"
        return Check("cost ceiling", f"{said}, {skipped:,} skipped", "warning", advice)
    return Check("cost ceiling", said)


def output(stages: dict[str, Any]) -> Check:
    """End to end before more comes in: which stage has made nothing yet."""
    empty = [name for name, made in stages.items() if name in reading.STAGES and not made["count"]]
    if not empty:
        return Check("output", "all five stages have made something")
    advice = f"look at {empty[0]} first; `duework scout trial` takes ten apps through all"
    return Check("output", f"nothing from {', '.join(empty)}", "problem", advice)


def figures_kept(now: int) -> Check:
    """Counting is in proportion to who looks: nobody does, nothing is counted."""
    rows = part.app.read("select max(at) as at from scout_figure where name = 'apps'")
    at = rows[0].at
    said = "never counted" if at is None else f"counted {moment(min(at, now), now)}"
    return Check(
        "counts",
        f"{len(figures.COUNTED)} figures, to {figures.MOST:,} rows each, for whoever looks; {said}",
    )


def upstream(url: str) -> Check:
    if url.startswith(LOCAL):
        advice = "for the real store: SCOUT_APPLE_URL=https://itunes.apple.com"
        return Check("upstream", f"a stand-in at {url}", "warning", advice)
    return Check("upstream", url)


def work() -> Iterator[Check]:
    """What waits for somebody."""
    failed = len(steering.failed(steering.LOOKED))
    advice = "read why at /scout/failed, then: duework scout requeue"
    yield (
        Check("failed work", f"{failed} given up", "warning", advice)
        if failed
        else Check("failed work", "none")
    )
    stopped = [piece for piece in steering.PIECES if steering.paused(piece)]
    advice = f"duework scout resume {stopped[0]}" if stopped else ""
    said = f"{', '.join(stopped)} paused" if stopped else "nothing is paused"
    yield Check("pauses", said, "warning" if stopped else "ok", advice)
