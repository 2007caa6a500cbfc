"""From an empty file to ranked opportunities, against Apple's own log."""

from __future__ import annotations

import pytest

from systems.scout import first, reading
from systems.scout.tests.conftest import World


@pytest.mark.rows("001-07")
def test_a_small_run_leads_to_an_opportunity_in_ten_minutes(world: World) -> None:
    first.start()
    world.h.advance("10m")
    found = reading.opportunities()
    assert found
    assert world.busiest_minute() <= 20
    assert reading.pipeline_test()["pipeline_healthy"]
