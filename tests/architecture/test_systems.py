"""The rules for what is built on the package, and for the twins: what they may know, and how much."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SYSTEMS = Path(__file__).parents[2] / "systems"
MODULES = sorted(path for path in SYSTEMS.rglob("*.py") if "tests" not in path.parts)
TWINS = sorted((SYSTEMS / "twins").rglob("*.py"))

MODULE_LINES = 450
FUNCTION_LINES = 60


def name_of(path: Path) -> str:
    return path.relative_to(SYSTEMS).as_posix()


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            yield node.module or ""


def test_twins_know_neither_a_system_nor_the_inside_of_the_engine() -> None:
    assert TWINS
    for path in TWINS:
        public = {"duework", "duework.testing"} if "tests" in path.parts else {"duework"}
        for target in imported(path):
            package = target.split(".")[0]
            if package in {"duework", "systems"}:
                own = target == "systems.twins" or target.startswith("systems.twins.")
                assert own or target in public, f"{name_of(path)} may not import {target}"


def test_modules_and_functions_of_systems_are_small_and_say_what_they_are() -> None:
    for path in MODULES:
        text = path.read_text()
        tree = ast.parse(text, str(path))
        assert re.match(r"(?s).{15,}[.:]", ast.get_docstring(tree) or ""), name_of(path)
        assert len(text.splitlines()) <= MODULE_LINES, name_of(path)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= FUNCTION_LINES, f"{name_of(path)}: {node.name} has {length} lines"
