"""Prices: what the article says, what the providers' own pages say, and where that stands.

List prices in dollars, as their pages showed them in 2026; what is included is for a month of the paid plan.
"""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000
CLOUDFLARE = "https://developers.cloudflare.com"


@dataclass(frozen=True)
class Price:
    """Of `per` units."""

    what: str
    article: float | None
    listed: float
    per: int
    included: int
    source: str
    note: str = ""

    def cost(self, units: float, *, included: bool = False) -> float:
        """At list price; with what is included, only what is above it."""
        billed = max(0.0, units - self.included) if included else units
        return billed / self.per * self.listed


PRICES = {
    "requests": Price(
        "Workers requests",
        0.30,
        0.30,
        MILLION,
        10 * MILLION,
        f"{CLOUDFLARE}/workers/platform/pricing/",
    ),
    "reads": Price(
        "D1 rows read",
        0.001,
        0.001,
        MILLION,
        25_000 * MILLION,
        f"{CLOUDFLARE}/d1/platform/pricing/",
    ),
    "writes": Price(
        "D1 rows written",
        0.01,
        1.00,
        MILLION,
        50 * MILLION,
        f"{CLOUDFLARE}/d1/platform/pricing/",
        "82 M writes for $0.82 would be a cent for a million",
    ),
    "blob storage": Price("R2 storage, GB-month", 0.015, 0.015, 1, 10, f"{CLOUDFLARE}/r2/pricing/"),
    "blob reads": Price("R2 reads", 0.36, 0.36, MILLION, 10 * MILLION, f"{CLOUDFLARE}/r2/pricing/"),
    "messages": Price(
        "Queues operations",
        0.40,
        0.40,
        MILLION,
        MILLION,
        f"{CLOUDFLARE}/queues/platform/pricing/",
        "a message is written, read and deleted: three operations",
    ),
    "object requests": Price(
        "Durable Objects requests",
        12.50,
        0.15,
        MILLION,
        MILLION,
        f"{CLOUDFLARE}/durable-objects/platform/pricing/",
        "$12.50 is the price of a million GB-s, not of requests",
    ),
    "object time": Price(
        "Durable Objects GB-s",
        None,
        12.50,
        MILLION,
        400_000,
        f"{CLOUDFLARE}/durable-objects/platform/pricing/",
    ),
    "data points": Price(
        "Analytics Engine data points",
        0.0,
        0.25,
        MILLION,
        10 * MILLION,
        f"{CLOUDFLARE}/analytics/analytics-engine/pricing/",
    ),
    "transitions": Price(
        "Step Functions transitions",
        0.025,
        0.025,
        1000,
        4000,
        "https://aws.amazon.com/step-functions/pricing/",
    ),
    "scheduled jobs": Price(
        "Cloud Scheduler, job-month",
        0.10,
        0.10,
        1,
        3,
        "https://cloud.google.com/scheduler/pricing",
    ),
}
OPERATIONS_A_MESSAGE = 3
