"""The pages of a private database: which of them a call changed, and how one is stored.

A stored page is a page of 4 KB without the run of zeros that most of a small one is. SQLite fills a
page from both ends, so there is one gap in the middle: where it begins, how long it is, and the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

PAGE = 4096
# Compared at once before single pages are.
_BLOCK = 16 * PAGE
# The shortest run of zeros that is worth leaving out.
_GAP = bytes(64)
# A gap is measured in such steps: what is left of it costs less than looking for its very end.
_ZEROS = [bytes(1 << power) for power in range(11, 5, -1)]


def packed(page: bytes) -> bytes:
    """A page as it is stored."""
    start = page.find(_GAP)
    if start < 0:
        return b"\0\0\0\0" + page
    end = start + len(_GAP)
    for zeros in _ZEROS:
        if page.startswith(zeros, end):
            end += len(zeros)
    return start.to_bytes(2) + (end - start).to_bytes(2) + page[:start] + page[end:]


def unpacked(stored: Iterable[bytes]) -> bytes:
    """All pages of a database."""
    found: list[bytes] = []
    for each in stored:
        start = 4 + int.from_bytes(each[:2])
        found += (each[4:start], bytes(int.from_bytes(each[2:4])), each[start:])
    return b"".join(found)


def changed(before: bytes, after: bytes) -> list[tuple[int, bytes]]:
    """The pages, numbered from 1, in which two databases differ.

    A write counts up a number in the first page. Where nothing else of that page changed it is not
    worth storing: it tells caches of a file that they are stale, and here there are none.
    """
    found: list[tuple[int, bytes]] = []
    for block in range(0, len(after), _BLOCK):
        if block and after[block : block + _BLOCK] == before[block : block + _BLOCK]:
            continue
        for start in range(block, min(block + _BLOCK, len(after)), PAGE):
            was = before[start : start + PAGE]
            if was and after.startswith(was, start):
                continue
            page = after[start : start + PAGE]
            if start or _first_differs(before, page):
                found.append((start // PAGE + 1, page))
    return found


def _first_differs(before: bytes, page: bytes) -> bool:
    """Leaves out the change counter and the version that it is valid for."""
    return page[:24] != before[:24] or page[28:92] != before[28:92] or page[96:] != before[96:PAGE]
