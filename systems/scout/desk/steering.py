"""Pause, resume and reset of the crawler, the controller and the agents; and what failed, to be run again.

What is paused is a row: it stays so over restarts. What runs at that moment is completed.
"""

from __future__ import annotations

from typing import Any, Literal

from duework import Conflict, NotFound
from systems.scout.part import JUDGING, part

Piece = Literal["crawler", "controller", "agents"]
PIECES: tuple[Piece, ...] = ("crawler", "controller", "agents")
CRAWLS = ("scout.crawl",)
JUDGES = ("scout.cluster",)
LOOKED = 1000


def paused(piece: Piece) -> bool:
    """Whether somebody has stopped it."""
    if piece == "controller":
        return not part.app.get_pace("enrich").details["running"]
    if piece == "agents":
        return JUDGING in part.app.paused()
    return any(each.paused for key in CRAWLS for each in part.app.schedules(prefix=key))


def pause(piece: Piece) -> None:
    if piece == "controller":
        part.app.get_pace("enrich").stop()
        return
    if piece == "agents":
        part.app.pause(JUDGING)
    _schedules(piece, on=False)


def resume(piece: Piece) -> None:
    if piece == "controller":
        part.app.get_pace("enrich").start()
        return
    if piece == "agents":
        part.app.resume(JUDGING)
    _schedules(piece, on=True)


def _schedules(piece: Piece, *, on: bool) -> None:
    """They are there as soon as a worker has started."""
    for key in CRAWLS if piece == "crawler" else JUDGES:
        for each in part.app.schedules(prefix=key):
            if each.key == key and each.paused is on:
                each.resume() if on else each.pause()


def reset(piece: Piece) -> str:
    """Forget failures and what was learned of them; nothing that was found is lost."""
    if piece == "controller":
        part.app.get_pace("enrich").reset()
        return "The controller starts anew"
    with part.app.transaction() as tx:
        if piece == "crawler":
            return _crawler_anew(tx)
        known = tx.write("delete from scout_agent_memory").changed
        tx.write("delete from scout_core_belief")
    return f"{known} beliefs are forgotten"


def _crawler_anew(tx: Any) -> str:
    charts = tx.write(
        "update scout_category set failures = 0, retry_at = 0 where failures > 0 or retry_at > 0"
    )
    words = tx.write(
        "update scout_keyword set failures = 0, status = 'pending'"
        " where status in ('failing', 'failed')"
    )
    return f"{charts.changed} charts and {words.changed} keywords are tried again"


# --- what failed


def failed(limit: int = 50) -> list[Any]:
    """Jobs and events that were given up, the newest first; one with an event is a subscriber's."""
    found = [
        job for job in part.app.jobs(phase="failed", limit=LOOKED) if job.task.startswith("scout.")
    ]
    return found[:limit]


def event_of(job: Any) -> Any | None:
    """The event that a failed job is about."""
    given = dict(job.arguments) if isinstance(job.arguments, dict) else {}
    event = given.get("event")
    return event if isinstance(event, dict) else None


def again(job: int) -> None:
    """Run one that failed once more."""
    found = part.app.job(job)
    if not found.task.startswith("scout."):
        raise NotFound(f"scout has no job {job}")
    part.app.revive(job)


def all_again() -> int:
    """Run all that failed once more; how many."""
    done = 0
    for job in failed(LOOKED):
        try:
            part.app.revive(job.id)
        except Conflict:
            # Another one has its key by now, and does the same.
            continue
        done += 1
    return done
