"""Short versions of the sections with storms and simulations: a little of each fault, every time."""

from __future__ import annotations

import pytest

from proof import clocks, crowd, partition, postgres, shapestorm, simulation, storm, versions
from proof.section import Section

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SECTIONS = [
    each.SECTION
    for each in (simulation, storm, shapestorm, postgres, partition, clocks, versions, crowd)
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_what_is_promised_holds_under_a_little_of_each_fault(
    section: Section, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Servers are stopped here: it must be their own.
    monkeypatch.delenv("TEST_PG_DSN", raising=False)

    for seed in (1, 2, 3):
        result = section.run("short", seed)
        # Too little of a fault, or a planted bug that had no chance to show, proves nothing: once more.
        # What was violated is violated.
        if result.violations or not result.problems():
            break

    assert result.problems() == [], result.counts
