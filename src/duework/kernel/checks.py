"""Invariants, as a file `checks.sql` says them: one statement each, in words, with what it is tried on.

The kernel has one, and so has each shape, in its own folder:

    -- name: note_has_text
    -- Of: notes
    -- Says: a note has a text
    select id from duework_note where text = '' limit :bound

    -- name: of_notes
    select count(*) from duework_note

A statement returns the rows that break its invariant, and changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from duework.db.queries import Statement, load
from duework.errors import UsageError

_CHECK = re.compile(r"(?m)^-- name: (\w+)\n-- Of: (\w+)\n-- Says: (.+)$")


@dataclass(frozen=True, slots=True)
class Invariant:
    """What always holds: the statement that finds what breaks it, and the one that counts what there is."""

    name: str
    says: str
    statement: Statement
    count: Statement


@lru_cache(maxsize=64)
def load_checks(package: str) -> tuple[Invariant, ...]:
    """The invariants of a folder's `checks.sql`; none if it has no such file."""
    file = resources.files(package) / "checks.sql"
    if not file.is_file():
        return ()
    statements = vars(load(package, "checks"))
    found = _CHECK.findall(file.read_text())
    counts = {name: f"of_{of}" for name, of, _ in found}
    if lost := [name for name in statements if name not in counts and name[:3] != "of_"]:
        raise UsageError(f"{package}: the check {lost[0]} begins with `-- Of:` and `-- Says:`")
    if lost := [count for count in counts.values() if count not in statements]:
        raise UsageError(f"{package}: checks.sql has no statement {lost[0]}")
    return tuple(
        Invariant(name, says, statements[name], statements[counts[name]]) for name, _, says in found
    )


KERNEL_CHECKS = load_checks("duework.kernel")
