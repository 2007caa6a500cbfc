"""The benchmark of workflows, at a scale that takes seconds: every step's effect is there once."""

from __future__ import annotations

from bench.workflows import STEPS, run


def test_every_effect_of_every_workflow_is_there_once(url: str) -> None:
    found = run(url, 50)

    assert found.whole
    assert found.effects == 50 * STEPS
