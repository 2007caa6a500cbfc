"""Requests that a writer finds waiting together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from duework.db.database import Tx
from duework.db.writer.writer import Writer
from duework.errors import DatabaseError


def in_one_group(writer: Writer, requests: Sequence[tuple[Any, list[Any]]]) -> list[Any]:
    """Answers, or errors, of requests that the writer finds waiting together."""
    answers: list[Any] = [None] * len(requests)
    waiting, go = threading.Event(), threading.Event()

    def hold(tx: Tx, items: list[Any]) -> list[Any]:
        waiting.set()
        go.wait(10)
        return items

    def ask(place: int, verb: Any, items: list[Any]) -> None:
        try:
            answers[place] = writer.call(verb, items)
        except DatabaseError as error:
            answers[place] = error

    first = threading.Thread(target=writer.call, args=(hold, [None]))
    first.start()
    assert waiting.wait(10)
    rest = [
        threading.Thread(target=ask, args=(place, *request))
        for place, request in enumerate(requests)
    ]
    for thread in rest:
        thread.start()
    while len(writer._waiting) < len(requests):  # noqa: SLF001 - that they do wait is the point
        threading.Event().wait(0.001)
    go.set()
    for thread in [first, *rest]:
        thread.join(20)
    return answers
