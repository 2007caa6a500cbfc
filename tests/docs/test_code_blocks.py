"""Every Python block of the README and of the guides runs, in order, as one program per page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.docs import GUIDES, ROOT, blocks, name, program, run

HEADINGS = (
    "The problem",
    "What is promised",
    "What is not",
    "If it crashes here",
    "How to watch it",
)


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(program(page))

    run(script, tmp_path)


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_a_guide_has_a_program_and_answers_the_crash_question(page: Path) -> None:
    text = page.read_text()

    assert blocks(page, "python")
    for heading in HEADINGS:
        assert f"\n## {heading}\n" in text, f"{name(page)} has no {heading!r}"


def test_the_readme_shows_the_smallest_example() -> None:
    example = (ROOT / "examples" / "hello.py").read_text()

    assert example.partition('"""\n\n')[2] in blocks(ROOT / "README.md", "python")
