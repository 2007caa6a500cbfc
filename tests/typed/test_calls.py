"""Type checkers accept what is right and find what is wrong: every call of `calls.py`, and no other line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duework.kernel.tasks import Policy
from duework.shapes.chains.tasks import StartOptions
from duework.shapes.outboxes.handle import MessageOptions
from duework.shapes.schedules.plan import SchedulePlan
from duework.task import Options, Using
from duework.typed import options as typed

HERE = Path(__file__).parent
CALLS = HERE / "calls.py"


def marked() -> set[int]:
    lines = CALLS.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        cwd=HERE.parents[1],
        check=False,
    )
    return done.stdout


def mypy() -> dict[int, str]:
    said = run("mypy", "--strict", "--python-version", "3.11", "--no-error-summary", str(CALLS))
    found = re.findall(r"^tests/typed/calls\.py:(\d+): error: (.*)$", said, re.MULTILINE)
    return {int(line): what for line, what in found}


def pyright(tmp_path: Path) -> dict[int, str]:
    project = tmp_path / "pyrightconfig.json"
    settings = {"include": [str(CALLS)], "typeCheckingMode": "standard", "pythonVersion": "3.11"}
    project.write_text(json.dumps(settings))
    said = json.loads(
        run("basedpyright", "--outputjson", "-p", str(project), "--pythonpath", sys.executable)
    )
    assert said["summary"]["filesAnalyzed"] == 1
    errors = [each for each in said["generalDiagnostics"] if each["severity"] == "error"]
    return {each["range"]["start"]["line"] + 1: each["message"] for each in errors}


def judged(found: dict[int, str]) -> None:
    wrong = marked()

    assert len(wrong) > 50
    assert {line: what for line, what in found.items() if line not in wrong} == {}
    assert sorted(wrong - set(found)) == []


@pytest.mark.slow
def test_mypy_finds_what_is_wrong_and_nothing_else() -> None:
    judged(mypy())


@pytest.mark.slow
def test_pyright_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    judged(pyright(tmp_path))


# What is no option of a user's.
OWN = {"immortal"}


@pytest.mark.parametrize(
    ("shown", "made", "more"),
    [
        (typed.PolicyOptions, Policy, {"name", "aliases"}),
        (typed.EnqueueOptions, Options, set()),
        (typed.ChainOptions, StartOptions, set()),
        (typed.OutboxOptions, MessageOptions, set()),
        (typed.ScheduleOptions, SchedulePlan, set()),
    ],
)
def test_type_checkers_know_exactly_the_options_that_there_are(
    shown: Any, made: Any, more: set[str]
) -> None:
    assert set(shown.__annotations__) - more == set(made.__dataclass_fields__) - OWN


def test_type_checkers_know_exactly_the_options_of_a_task_and_of_a_batch() -> None:
    task, plan = typed.PolicyOptions.__annotations__, typed.PlanOptions.__annotations__
    takes: Callable[..., Any] = Using.as_batch

    assert set(typed.TaskOptions.__annotations__) == {*task, *plan, "idle"}
    assert set(typed.BatchOptions.__annotations__) == set(takes.__kwdefaults__)
