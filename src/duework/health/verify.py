"""The invariants, checked on a live database, read-only.

Everything is looked at in one consistent view, so a database in full use has no violations either. Each
invariant is a statement in `checks.sql` of the kernel or of a shape that returns the rows which break it;
only checksums need Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from duework.clock import FOREVER
from duework.codec import checksum
from duework.db.database import Tx
from duework.db.queries import Statement, load
from duework.kernel.checks import Invariant

CHECKS = load("duework.health", "verify")

# Violations are counted up to this.
BOUND = 1000
# How many of them are named.
SAMPLE = 5
# How many of the newest payloads are compared without `full`.
SAMPLED_PAYLOADS = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant, how many rows it was tried on, and which break it."""

    name: str
    says: str
    checked: int
    violations: int
    sample: tuple[str, ...] = ()


def verify(
    tx: Tx,
    checks: Sequence[Invariant],
    *,
    full: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Finding]:
    """Check these invariants; `full` compares all payloads and lets the database check itself."""
    counted: dict[Statement, int] = {}
    findings = []
    for each in checks:
        tell(each.says)
        if each.count not in counted:
            counted[each.count] = _run(tx, each.count)[0][0]
        rows = _run(tx, each.statement)
        sample = tuple(str(row[0]) for row in rows[:SAMPLE])
        findings.append(Finding(each.name, each.says, counted[each.count], len(rows), sample))
    findings.append(_checksums(tx, None if full else SAMPLED_PAYLOADS, tell))
    if full:
        findings += _database(tx, tell)
    return findings


def _run(tx: Tx, statement: Statement) -> list[tuple[Any, ...]]:
    given = {"bound": BOUND, "forever": FOREVER}
    return tx.query(statement, {name: given[name] for name in statement.names})


def _checksums(tx: Tx, limit: int | None, tell: Callable[[str], None]) -> Finding:
    says = "a payload matches its checksum"
    tell(says)
    before, checked = 2**62, 0
    broken: list[str] = []
    while limit is None or checked < limit:
        rows = tx.query(CHECKS.payloads, {"before": before, "bound": BOUND})
        if not rows:
            break
        checked += len(rows)
        before = rows[-1][0]
        broken += [str(row[0]) for row in rows if checksum(row[0], row[1], row[2]) != row[3]]
    return Finding("payload_checksum", says, checked, len(broken), tuple(broken[:SAMPLE]))


def _database(tx: Tx, tell: Callable[[str], None]) -> list[Finding]:
    says = "the database's own check finds nothing"
    tell(says)
    lines = [str(row[0]) for row in tx.query(CHECKS.integrity, {}) if row[0] != "ok"]
    integrity = Finding("integrity", says, 1, len(lines), tuple(lines[:SAMPLE]))
    says = "no row refers to one that is missing"
    tell(says)
    rows = [f"{row[0]}:{row[1]}" for row in tx.query(CHECKS.foreign_keys, {})]
    return [integrity, Finding("foreign_keys", says, 1, len(rows), tuple(rows[:SAMPLE]))]
