"""How large a page is: by the kind of sync and how much there is, but first by what is left of the quota.

A page is so many calls of 200 activities. 500 and 1,500 are no such number: 600 and 1,600 are.
"""

from __future__ import annotations

from systems.strides.part import PER_CALL, QUOTA, SMALL, part, settings

USUAL, LARGE = 5, 8
# The first page of a sync; how much there is, it has yet to find out.
FIRST = {"initial": SMALL, "full": USUAL, "incremental": USUAL}
FEW, MANY = 1_000, 10_000
# Of a hundred calls in a quarter of an hour: above that, pages are small.
BUSY = 0.8


def first_size(kind: str) -> int:
    """How many activities the first page of a sync takes."""
    return (settings().page_calls or FIRST[kind]) * PER_CALL


def next_size(kind: str, total: int) -> int:
    """The same of the pages after it, by how many activities are expected; 0 is not known."""
    calls = FIRST[kind]
    if total:
        calls = SMALL if total < FEW else LARGE if total > MANY else USUAL
    return (settings().page_calls or calls) * PER_CALL


async def calls_of(size: int) -> int:
    """How many calls a page of that size makes now: few, whoever it is for, if the quota is nearly spent."""
    quarter = (await part.app.aget_pace(QUOTA.name or "")).details["15m"]
    # Its own first calls are among what is taken, the reserve is not in the limit.
    used, limit = quarter["used"] - SMALL, quarter["limit"] * 100 / (100 - QUOTA.reserve)
    return SMALL if used > limit * BUSY else max(1, size // PER_CALL)
