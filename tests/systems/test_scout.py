"""Scout over hours, with faults and kills: the short form of its section of the proof."""

from __future__ import annotations

import pytest

from proof import scout

SEED = 1


@pytest.mark.slow
@pytest.mark.rows("001-01", "001-110", "001-141", "001-T21", "001-T24", "001-X5")
def test_every_app_of_five_hundred_is_found_once_and_apple_never_sees_21_calls_a_minute() -> None:
    result = scout.run("short", SEED)

    assert result.problems() == []
    assert result.counts["apps found"] == result.counts["apps there are"] == 500
    assert set(result.planted) == {"every search asks twice", "an app under a number of its own"}
    for way in ("chart", "search", "portfolio", "similar"):
        assert int(result.counts[f"found by {way}"]) > 10, way
