"""How requests of one transaction are run: those of one verb as one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from duework.db.writer.requests import Request, run_together

NO_TX: Any = None


class Notes:
    """Verbs that note how they were called."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def double(self, _: Any, items: list[int]) -> Sequence[int]:
        self.calls.append(items)
        return [2 * item for item in items]

    def count(self, _: Any, items: list[int]) -> Sequence[int]:
        return [len(items)]


def test_neighbouring_requests_of_one_method_are_one_call_and_each_gets_its_own_answers() -> None:
    notes, others = Notes(), Notes()
    group = [
        Request(notes.double, [1, 2]),
        Request(notes.double, [3]),
        Request(others.double, [4]),
        Request(notes.double, [5]),
    ]

    run_together(NO_TX, group)

    assert notes.calls == [[1, 2, 3], [5]]
    assert others.calls == [[4]]
    assert [request.value for request in group] == [[2, 4], [6], [8], [10]]


def test_a_verb_that_does_not_answer_each_of_its_items_is_never_answered_for() -> None:
    notes = Notes()

    with pytest.raises(AssertionError, match="answers each"):
        run_together(NO_TX, [Request(notes.count, [1]), Request(notes.count, [2])])
