"""The sections of the proof about whole systems, at a scale that takes seconds each."""

from __future__ import annotations

import pytest

from proof import mails, month
from proof.section import Section

SEED = 1


@pytest.mark.slow
@pytest.mark.parametrize("section", [month.SECTION, mails.SECTION], ids=lambda each: each.name)
def test_a_section_about_a_system_holds_and_finds_what_is_planted(section: Section) -> None:
    result = section.run("short", SEED)

    assert result.planted
    assert result.floors
    assert result.problems() == []
