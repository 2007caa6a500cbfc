"""Short versions of the sections with storms and simulations: a little of each fault, every time."""

from __future__ import annotations

import pytest

from proof import clocks, partition, postgres, simulation, storm, versions
from proof.section import Section

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SECTIONS = [each.SECTION for each in (simulation, storm, postgres, partition, clocks, versions)]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_what_is_promised_holds_under_a_little_of_each_fault(
    section: Section, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Servers are stopped here: it must be their own.
    monkeypatch.delenv("TEST_PG_DSN", raising=False)

    result = section.run("short", 1)

    assert result.problems() == [], result.counts
