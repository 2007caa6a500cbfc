"""One word for one thing: the glossary is the law on names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.docs import ROOT, name

GLOSSARY = ROOT / "docs" / "glossary.md"
SOURCE = ROOT / "src" / "duework"
# The words of the kernel; shapes add theirs when they come.
WORDS = [
    "job",
    "task",
    "due",
    "enqueue",
    "claim",
    "lease",
    "extend",
    "attempt",
    "outcome",
    "settle",
    "snooze",
    "retry",
    "revive",
    "key",
    "queue",
    "lane",
    "worker",
    "chain",
    "page",
    "cursor",
    "schedule",
    "slot",
    "fire",
    "object",
    "alarm",
]


def _forbidden() -> list[str]:
    """The first column of the table of words that are not used."""
    table = GLOSSARY.read_text().partition("## Words we do not use")[2]
    cells = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


def _names(path: Path) -> set[str]:
    """Everything that a module gives a name to."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                found.add(node.attr)
            case ast.arg():
                found.add(node.arg)
    return found


def _words(identifier: str) -> str:
    """`LeaseWasLost` and `lease_was_lost` are both ' lease was lost '."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)
    return f" {' '.join(parts).lower()} "


@pytest.mark.parametrize("word", WORDS)
def test_every_word_has_one_definition(word: str) -> None:
    rows = re.findall(rf"^\| \*\*{word}\*\* \|", GLOSSARY.read_text(), re.MULTILINE)

    assert len(rows) == 1


def test_every_class_that_the_glossary_names_is_there() -> None:
    table = GLOSSARY.read_text().partition("## Words of the inside")[2].partition("\n## ")[0]
    words = re.findall(r"(?:\*\*|`)([A-Z][a-z]+\w*)", table)
    nodes = (
        node for path in SOURCE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
    )
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}

    assert len(words) > 10
    assert set(words) <= classes


@pytest.mark.parametrize("room", ["kernel", "worker", "db"])
def test_comments_say_what_they_mean_and_not_who(room: str) -> None:
    narration = re.compile(
        r"(?i)\b(whoever|somebody|nobody|anybody|everybody|he|his|him|errands?)\b"
    )
    files = (path for path in (SOURCE / room).rglob("*") if path.suffix in {".py", ".sql"})

    for path in files:
        if path.parts[-3] != "migrations":
            found = narration.search(path.read_text())
            assert found is None, f"{name(path)}: {found[0] if found else ''}"


def test_there_are_words_that_we_do_not_use() -> None:
    assert {"dequeue", "visibility timeout", "heartbeat", "broker"} <= set(_forbidden())


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=name)
def test_python_names_use_the_words(path: Path) -> None:
    for identifier in _names(path):
        for word in _forbidden():
            assert f" {word} " not in _words(identifier), f"{name(path)}: {identifier}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.sql")), ids=name)
def test_sql_names_use_the_words(path: Path) -> None:
    code = re.sub(r"--[^\n]*", "", path.read_text())

    for identifier in re.findall(r"\w+", code):
        for word in _forbidden():
            assert f" {word} " not in _words(identifier), f"{name(path)}: {identifier}"
