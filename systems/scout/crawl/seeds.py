"""Keywords to begin with: given by hand, searched for before all that was derived."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duework import UsageError
from systems.scout import store
from systems.scout.crawl import keywords

PRIORITY = 50
OFTEN = 1


def clean(text: str) -> str:
    """A keyword as it is searched for."""
    found = keywords.spelled(text)
    if not found:
        raise UsageError(f"{text!r} has no letters to search for; give a word, as in 'sleep timer'")
    return found


def add(
    to: Any, texts: Iterable[str], now: int, *, source: str = "hand", priority: int = PRIORITY
) -> list[str]:
    """Note seeds and have them searched for; those that are known already go to the front as well."""
    words = list(dict.fromkeys(clean(each) for each in texts))
    rows = [{"keyword": word, "source": source, "priority": priority, "now": now} for word in words]
    if rows:
        to.write(
            "insert into scout_seed (keyword, source, priority, created_at)"
            " values (:keyword, :source, :priority, :now) on conflict (keyword) do nothing",
            rows=rows,
        )
        store.keywords(to, words, now, source="seed", priority=priority)
        to.write(
            "update scout_keyword set priority = :priority where keyword = :keyword"
            " and priority < :priority",
            rows=[{"keyword": word, "priority": priority} for word in words],
        )
    return words


def follow(to: Any, text: str, now: int, *, days: int = OFTEN) -> str:
    """Search for a keyword again each day, or as often as that."""
    [word] = add(to, [text], now, source="followed")
    to.write(
        "update scout_keyword set refresh_days = :days,"
        " due_at = case when status = 'searched' then :now else due_at end where keyword = :word",
        days=days,
        now=now,
        word=word,
    )
    return word
