"""The documentation as tests see it: its files, their code blocks, and how to run a program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duework

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(page.read_text()) if found == language]


def program(page: Path) -> str:
    """The page's Python blocks as one program, each at its own line of the page."""
    text = page.read_text()
    lines = [""] * (text.count("\n") + 1)
    for match in _BLOCK.finditer(text):
        if match[1] == "python":
            start = text.count("\n", 0, match.start()) + 1
            for place, line in enumerate(match[2].splitlines(), start):
                lines[place] = line
    return "\n".join(lines)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def environment() -> dict[str, str]:
    """For a program that imports the same package as these tests, and finds no database by itself."""
    found = {key: value for key, value in os.environ.items() if not key.startswith("DUEWORK")}
    # The toy of the guide "Write a shape" is there, too.
    source, toy = str(Path(duework.__file__).parents[1]), str(ROOT / "tests" / "toy")
    found["PYTHONPATH"] = os.pathsep.join([source, toy, *filter(None, [found.get("PYTHONPATH")])])
    found["PYTHONWARNINGS"] = "error"
    return found


def run(path: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder of its own; what it printed, if it ended well."""
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{path.name} ended with {done.returncode}:\n{done.stderr}"
    return done
