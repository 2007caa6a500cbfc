"""The article's cost model, computed again from prices with a source. Pure functions.

A line says what the article claims, what comes out, and whether the two agree. They often do not: the bill
contradicts the price list, the price list the providers', and the whole its own headline.
"""

from __future__ import annotations

from dataclasses import dataclass

from systems.scout.economy.prices import MILLION, OPERATIONS_A_MESSAGE, PRICES

BILLION = 1000 * MILLION
MINUTES_A_DAY = 1440
ITEMS, STAGES = MILLION, 5
# What an item costs in each stage.
READS, WRITES, MESSAGES = 3, 1, 1
# Memory of an object, as it is billed.
OBJECT_GB = 0.128
# Seconds, of 180,000 keywords with 2.8 million rankings: `python -m bench.articles --only clusters`.
CLUSTER_CPU = 118.0


@dataclass(frozen=True)
class Line:
    """One claim about money."""

    row: str
    what: str
    claimed: float
    computed: float
    why: str = ""
    # Whether the article says "less than".
    below: bool = False

    @property
    def holds(self) -> bool:
        """Whether the two agree to within five percent, or a cent; or the one is below the other."""
        if self.below:
            return self.computed < self.claimed
        return abs(self.claimed - self.computed) <= max(0.05 * abs(self.computed), 0.01)


def bill() -> list[Line]:
    """The article's bill, line by line, at list price without what a plan includes."""
    hours = PRICES["object time"].cost(45 * 3600 * OBJECT_GB)
    return [
        Line("001-150", "19.6 B rows read", 19.63, PRICES["reads"].cost(19.6 * BILLION)),
        Line(
            "001-150",
            "19.6 B rows read, 25 B of which are included",
            19.63,
            PRICES["reads"].cost(19.6 * BILLION, included=True),
            "the article's own table includes 25 B",
        ),
        Line(
            "001-150",
            "82 M rows written",
            0.82,
            PRICES["writes"].cost(82 * MILLION),
            "a million costs a dollar",
        ),
        Line(
            "001-150",
            "82 M rows written, 50 M of which are included",
            0.82,
            PRICES["writes"].cost(82 * MILLION, included=True),
        ),
        Line("001-150", "R2, 1.2 GB", 0.02, PRICES["blob storage"].cost(1.2)),
        Line(
            "001-150",
            "Durable Objects, 45 h",
            0.56,
            hours,
            "45 h of 128 MB are 20,736 GB-s, of which 400,000 are included",
        ),
        Line("001-150", "the sum of the article's lines", 21.03, 19.63 + 0.82 + 0.02 + 0.56),
        Line(
            "001-01", "less than $20 a month", 20.0, 21.03, "its own bill is above it", below=True
        ),
        Line(
            "001-195",
            "less than $1 a month after it was optimised",
            1.0,
            after_optimising() + 0.82 + 0.02 + 0.56,
            "reads alone became fewer; the other lines of the bill stay",
            below=True,
        ),
    ]


def reads_of_counting(counters: int, rows: int, days: int = 1) -> int:
    """Rows read by counting so many tables once a minute."""
    return counters * rows * MINUTES_A_DAY * days


def after_optimising() -> float:
    """Five times fewer cycles, and seven times fewer reads in each, of $19.63."""
    return 19.63 / 5 / 7


def lessons() -> list[Line]:
    """What counting costs."""
    all_of_it = reads_of_counting(21, 500_000, 6)
    return [
        Line(
            "001-T5",
            "21 counters, 500 K rows, a minute, six days, in billions",
            19.6,
            all_of_it / BILLION,
            "the arithmetic says 90.7, the bill 19.6",
        ),
        Line(
            "001-155",
            "a count of a million rows every minute, a day",
            1.44,
            PRICES["reads"].cost(reads_of_counting(1, MILLION)),
        ),
        Line("001-153", "after: reads a month", 0.50, after_optimising(), "$0.56"),
        Line("001-153", "saved, in percent", 97, 100 * (1 - after_optimising() / 19.63)),
    ]


def platforms() -> list[Line]:
    """A million items through five stages."""
    steps = ITEMS * STAGES
    cloudflare = (
        PRICES["reads"].cost(steps * READS)
        + PRICES["writes"].cost(steps * WRITES)
        + PRICES["messages"].cost(steps * MESSAGES * OPERATIONS_A_MESSAGE)
        + PRICES["requests"].cost(steps)
    )
    return [
        Line("001-02", "AWS: transitions", 125.0, PRICES["transitions"].cost(steps)),
        Line("001-T6", "15 M reads", 15.0, PRICES["reads"].cost(steps * READS), "$0.015"),
        Line(
            "001-162",
            "Cloudflare",
            19.50,
            cloudflare,
            "reads are a thousand times cheaper, writes and messages dearer than assumed",
        ),
        Line(
            "001-04",
            "Cloud Scheduler, five jobs a month, three of them free",
            0.50,
            PRICES["scheduled jobs"].cost(5, included=True),
            "three jobs are free",
        ),
        Line(
            "001-163",
            "cheapest for what orchestrates much: Cloudflare, below AWS's transitions alone",
            PRICES["transitions"].cost(steps),
            cloudflare,
            below=True,
        ),
        Line(
            "001-163",
            "computes little: CPU seconds of one cluster run of its size, below 30",
            30.0,
            CLUSTER_CPU,
            "measured here: its own fourth stage does not fit; ours has a process of its own",
            below=True,
        ),
    ]


def claims() -> list[Line]:
    """Everything that can be computed."""
    return [*platforms(), *bill(), *lessons()]


def ceiling(cycles: int) -> float:
    """The article's estimate of a month's cycles: five stages of 100,000 rows each, in dollars."""
    return PRICES["reads"].cost(cycles * STAGES * 100_000)
