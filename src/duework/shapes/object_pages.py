"""Pages as they are stored: a page of 4 KB without the run of zeros that most of a small one is.

SQLite fills a page from both ends, so there is one gap in the middle. A stored page is where its gap
begins, how long it is, and the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

PAGE = 4096
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
