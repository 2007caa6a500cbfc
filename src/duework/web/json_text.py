"""Stored JSON as lines for people: indented, with its numbers as they were written and its secrets left out.

It is cut into tokens and never decoded, so no number changes and no depth can be too much. What comes
back are pieces of text with a class each; whoever shows them escapes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Shown up to here: a page is no place for megabytes.
MOST = 40_000
DEEPEST = 40
# What has more lines is folded behind these.
LINES = 40
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|([{}\[\],])|([^\s{}\[\],":]+)|\s+|(.)', re.DOTALL)
_SECRET = re.compile(r"(?i)password|passwd|secret|token|api_?key|authorization")

Piece = tuple[str, str]


def pieces(text: str) -> Iterator[Piece]:
    """(class, text), to be written one after the other."""
    depth, fresh, hidden, secret = 0, False, 0, False
    for match in _TOKEN.finditer(text[:MOST]):
        string, colon, mark, word, odd = match.groups()
        if mark == ",":
            yield "", "," + _line(depth)
        elif mark and mark in "}]":
            depth = max(0, depth - 1)
            yield "", mark if fresh else _line(depth) + mark
            fresh = False
            hidden = 0 if depth < hidden else hidden
        elif string or mark or word or odd:
            if fresh:
                yield "", _line(depth)
            fresh = bool(mark)
            if mark:
                depth += 1
                # All that is inside of a secret is one.
                hidden = hidden or (depth if secret else 0)
                yield "", mark
            else:
                yield _scalar(string, colon, word or odd or "", hide=secret or hidden > 0)
            secret = bool(colon) and _SECRET.search(string) is not None
            if colon:
                yield "", ": "
    if len(text) > MOST:
        yield "c", f"\n… {len(text) - MOST:,} more characters"


def folded(text: str) -> tuple[list[Piece], list[Piece], int]:
    """The pieces of the first lines, the pieces of the others, and how many lines those are."""
    shown: list[Piece] = []
    rest: list[Piece] = []
    lines = 1
    for cls, piece in pieces(text):
        lines += piece.count("\n")
        if lines > LINES and not rest:
            # The line that ends here is the last one that is shown.
            before, _, behind = piece.partition("\n")
            shown.append((cls, before))
            rest.append((cls, behind))
        else:
            (rest or shown).append((cls, piece))
    return shown, rest, lines - LINES


def _scalar(string: str | None, colon: str | None, word: str, *, hide: bool) -> Piece:
    if colon:
        return "k", string or ""
    if hide:
        return "c", "secret, not shown"
    return ("s", string) if string else ("n", word)


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, DEEPEST)
