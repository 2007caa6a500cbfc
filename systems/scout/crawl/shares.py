"""Who may call Apple how often: one pace for all, an order, and shares so that nobody starves.

The order is `ORDER` in part.py: what is few and urgent goes first, what never ends goes last. A strict
order alone would starve its end. So a cycle starts no more searches than fit until the next one beside
all others, and while apps wait to be enriched it leaves two of five calls alone.
"""

from __future__ import annotations

from systems.scout.part import A_MINUTE

# Five minutes of them: 95, if nobody has set another rate.
CALLS = 5 * A_MINUTE
CATS_PER_CYCLE = 3
# Calls for developers in a cycle, and developers in a call.
PORTFOLIOS, DEVELOPERS = 4, 10
# Searches that wait at most, when they are the primary task, and beside another one.
MAPPED, MAPPED_BESIDE = 100, 50
LEFT_ALONE = 0.4


def searches(*, primary: bool, others_wait: bool) -> int:
    """How many searches may wait for Apple in this cycle."""
    room = CALLS - CATS_PER_CYCLE - PORTFOLIOS
    if others_wait:
        room = min(room, int(CALLS * (1 - LEFT_ALONE)))
    return min(MAPPED if primary else MAPPED_BESIDE, room)
