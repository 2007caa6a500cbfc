"""`duework completion`: a shell is told what can come next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from duework.cli.completion import SHELLS
from tests.cli.conftest import Duework

COMMAND = str(Path(sys.executable).with_name("duework"))


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script(bare: Duework, shell: str) -> None:
    ran = bare("completion", shell)

    assert ran.code == 0
    assert "_DUEWORK_COMPLETE" in ran.out
    assert "duework" in ran.out


def test_a_shell_that_is_none_is_refused(bare: Duework) -> None:
    assert bare("completion", "cmd").code == 78


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("duework sch", "schedules"),
        ("duework schedules ed", "edit"),
        ("duework status --wa", "--watch"),
        ("duework jobs list --phase ru", "running"),
    ],
)
def test_words_are_completed(typed: str, expected: str) -> None:
    words = typed.split()
    environment = {
        **os.environ,
        "_DUEWORK_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }

    ran = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, check=True)

    assert f"plain,{expected}" in ran.stdout.splitlines()
