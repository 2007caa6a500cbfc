"""Named SQL in files beside the Python that uses it.

`jobs.sql` holds the text for both databases; `jobs.postgres.sql` holds overrides, each of which
says why it differs. Parameters are written `:name` everywhere. SQLite gets `+:name`;
for psycopg they are rewritten once, by a tokenizer that knows strings, quoted names, comments
and the `::` cast. Three spellings let one text serve both databases where they differ in a clause:

    in (select value from json_each(:ids))     a list; PostgreSQL gets `= any(:ids)`
    /*+ for update skip locked */              a clause for PostgreSQL, a comment for SQLite
    /*= indexed by duework_lane_task */        a clause for SQLite, a comment for PostgreSQL
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from types import SimpleNamespace

from duework.errors import UsageError

_TOKEN = re.compile(
    r"""
      (?<!\w)[Ee]'(?:[^'\\]|''|\\.)*'  # a string with backslashes, PostgreSQL's
    | '(?:[^']|'')*'                 # a string
    | "(?:[^"]|"")*"                 # a quoted name
    | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$  # a dollar-quoted string
    | --[^\n]*                       # a comment
    | /\*.*?\*/
    | ::                             # a cast
    | (?<![\w:]):(?P<name>[A-Za-z_]\w*)
    | %
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = re.compile(_TOKEN.pattern + r"|;|(?P<word>[A-Za-z_]\w*)", re.VERBOSE | re.DOTALL)
_SPACED = re.compile(_TOKEN.pattern + r"|(?P<space>\s+)", re.VERBOSE | re.DOTALL)
# What is created with a body: `create temp trigger`, `create or replace function`.
_BODIES = {"trigger", "function", "procedure"}
_LIST = re.compile(r"in \(select value from json_each\((:\w+)\)\)")
_CLAUSE = re.compile(r"/\*\+(.*?)\*/", re.DOTALL)
_SQLITE_CLAUSE = re.compile(r"/\*=(.*?)\*/", re.DOTALL)
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_WRITTEN = re.compile(r"\b(?:insert\s+(?:or\s+\w+\s+)?into|update|delete\s+from)\s+(duework_\w+)")


@lru_cache(maxsize=4096)
def parameters(sql: str) -> tuple[str, ...]:
    """The parameters of a text, each once, in the order in which they first appear."""
    return tuple(dict.fromkeys(m["name"] for m in _TOKEN.finditer(sql) if m["name"]))


@lru_cache(maxsize=4096)
def for_psycopg(sql: str) -> str:
    """The same text with psycopg's `%(name)s` parameters."""

    def swap(match: re.Match[str]) -> str:
        if match["name"]:
            return f"%({match['name']})s"
        return match[0].replace("%", "%%")

    return _TOKEN.sub(swap, sql)


def for_sqlite(sql: str) -> str:
    """The same text with values that the planner cannot look at: it would plan anew for each."""
    own = _SQLITE_CLAUSE.sub(r"\1", sql)
    return _TOKEN.sub(lambda match: f"+{match[0]}" if match["name"] else match[0], own)


@dataclass(frozen=True, slots=True)
class Statement:
    """One named query: a text for each database and the order of its parameters.

    One with nothing but comments is not run: there is nothing to do there.
    """

    name: str
    sqlite: str
    postgres: str
    names: tuple[str, ...]
    # What it writes to.
    tables: frozenset[str] = frozenset()


def load(package: str, stem: str) -> SimpleNamespace:
    """The statements of `<stem>.sql`, with the overrides of `<stem>.postgres.sql`."""
    folder = resources.files(package)
    common = _split((folder / f"{stem}.sql").read_text())
    override_file = folder / f"{stem}.postgres.sql"
    overrides = _split(override_file.read_text()) if override_file.is_file() else {}
    if stray := overrides.keys() - common.keys():
        raise UsageError(f"{stem}.postgres.sql overrides what is not there: {sorted(stray)}")
    statements = {}
    for name, text in common.items():
        other = overrides.get(name) or _for_postgres(text)
        # An override may need to know more than the common text.
        if not set(parameters(text)) <= set(parameters(other)):
            raise UsageError(f"{stem}.postgres.sql: {name} takes other parameters than {stem}.sql")
        statements[name] = Statement(
            name,
            for_sqlite(text) if _has_code(text) else "",
            for_psycopg(other),
            parameters(text),
            frozenset(_WRITTEN.findall(f"{text}\n{other}")),
        )
    return SimpleNamespace(**statements)


def _for_postgres(text: str) -> str:
    return _CLAUSE.sub(r"\1", _LIST.sub(r"= any(\1)", text))


def _split(text: str) -> dict[str, str]:
    pieces = _NAME.split(text)
    return {
        name: body.strip().rstrip(";")
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def script(text: str) -> list[str]:
    """The single statements of a migration.

    A semicolon inside a string, a comment or the body of a trigger does not end one.
    """
    found, start, depth = [], 0, 0
    words: list[str] = []
    for match in _WORDS.finditer(text):
        piece = match[0].lower()
        if piece == ";" and depth <= 0:
            found.append(text[start : match.start()])
            start, depth, words = match.end(), 0, []
        elif match["word"]:
            words.append(piece)
            if _has_body(words):
                depth += (piece in {"begin", "case"}) - (piece == "end")
    found.append(text[start:])
    return [piece.strip() for piece in found if _has_code(piece)]


def _has_body(words: list[str]) -> bool:
    return words[0] == "create" and not _BODIES.isdisjoint(words[1:4])


def without_comments(text: str) -> str:
    """The same to a database: no comments, and one space where there is white space outside of strings."""

    def swap(match: re.Match[str]) -> str:
        blank = match["space"] or match[0].startswith(("--", "/*"))
        return "\0" if blank else match[0]

    return re.sub("\0+", " ", _SPACED.sub(swap, text)).strip()


def _has_code(piece: str) -> bool:
    return bool(without_comments(piece))
