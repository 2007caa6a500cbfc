"""Compare the rows of the specification with the tests that carry their numbers; runs none of them.

A test carries `@pytest.mark.rows("000-17", …)`. A row that is not built stands in the system's
`rows.toml` with the reason; one that says `whole = true` there has no open rows left.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SYSTEMS = Path(__file__).parents[1]
ROOT = SYSTEMS.parent
# What the specification asks for outright: only a decision record may refuse it.
ASKED_FOR = frozenset("BNSATX")


@dataclass
class Count:
    """How a system's rows are answered for."""

    built: set[str] = field(default_factory=set)
    refuted: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)


def known() -> dict[str, dict[str, str]]:
    """Every row's number and kind, by system."""
    rows: dict[str, dict[str, str]] = tomllib.loads((SYSTEMS / "rows" / "ids.toml").read_text())
    return rows


def files_of_tests(root: Path) -> Iterator[Path]:
    """Where tests of systems live."""
    yield from sorted((root / "systems").rglob("test_*.py"))
    yield from sorted((root / "tests" / "systems").rglob("test_*.py"))


def marks(path: Path) -> Iterator[tuple[str, int]]:
    """The rows that a file's tests carry, with the line of each mark."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.rows":
            for argument in node.args:
                yield str(ast.literal_eval(argument)), node.lineno


def check(root: Path = ROOT) -> tuple[dict[str, Count], list[str]]:
    """The counts by system, and a sentence for everything that is wrong."""
    ids = known()
    kinds = {row: kind for rows in ids.values() for row, kind in rows.items()}
    wrong: list[str] = []
    tested: set[str] = set()
    for path in files_of_tests(root):
        for row, line in marks(path):
            tested.add(row)
            if row not in kinds:
                where = path.relative_to(root).as_posix()
                wrong.append(f"{where}:{line} carries {row}, which is no row of the specification")
    counts = {
        name: _count(root / "systems" / name, rows, tested, wrong) for name, rows in ids.items()
    }
    return counts, wrong


def _count(folder: Path, rows: dict[str, str], tested: set[str], wrong: list[str]) -> Count:
    path = folder / "rows.toml"
    given = tomllib.loads(path.read_text()) if path.exists() else {}
    refuted: dict[str, str] = given.get("refuted", {})
    for row, why in refuted.items():
        wrong.extend(_doubts(folder.name, row, why, rows, tested))
    built = rows.keys() & tested
    left = rows.keys() - built - refuted.keys()
    if given.get("whole") and left:
        wrong.append(f"{folder.name} says it is whole; open: {', '.join(sorted(left))}")
    return Count(set(built), set(refuted) & set(rows), left)


def _doubts(
    system: str, row: str, why: str, rows: dict[str, str], tested: set[str]
) -> Iterator[str]:
    if row not in rows:
        yield f"{system}/rows.toml refutes {row}, which is none of its rows"
        return
    if row in tested:
        yield f"{system}/rows.toml refutes {row}, which a test carries"
    if not why.strip():
        yield f"{system}/rows.toml refutes {row} without a reason"
    if ASKED_FOR & set(rows[row]) and not re.search(r"decision \d{4}", why):
        yield f"{system}/rows.toml refutes {row} ({rows[row]}): that needs a decision record"
