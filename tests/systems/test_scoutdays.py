"""Scout left alone, with a model, faults and kills: the short form of its section of the proof."""

from __future__ import annotations

import pytest

from proof import scoutdays

SEED = 1


@pytest.mark.slow
@pytest.mark.rows("001-X4", "001-193", "001-07")
def test_five_stages_go_on_within_their_budget_and_the_ledger_equals_both_books() -> None:
    result = scoutdays.run("short", SEED)

    assert result.problems() == []
    assert set(result.planted) == {
        "a lost reply costs nothing",
        "a day above its budget",
        "a call that nobody counted",
    }
