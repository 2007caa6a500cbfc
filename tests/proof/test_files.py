"""The sections of the proof about files, at a scale that takes seconds each."""

from __future__ import annotations

import pytest

from proof import diskerrors, flips, killpoints, powerloss
from proof.section import Section

SECTIONS = [each.SECTION for each in (killpoints, powerloss, diskerrors, flips)]
SEED = 1
IMPOSSIBLE = "the faults could not be made here"


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_a_section_about_files_holds_and_finds_what_is_planted(section: Section) -> None:
    result = section.run("short", SEED)
    if impossible := [why for why in result.violations if why.startswith(IMPOSSIBLE)]:
        # Some sandboxes let no process answer for another's system calls; `make proof` does not hold there.
        pytest.skip(impossible[0])

    assert result.planted
    assert result.floors
    assert result.problems() == []
