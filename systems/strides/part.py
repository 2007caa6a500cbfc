"""The part itself: its name, tables and settings, and the one quota that all athletes share."""

from __future__ import annotations

from duework import Part, Quota
from systems.strides.settings import Settings

# The most activities of one call, and the calls that a page takes before it starts: a small page's.
PER_CALL, SMALL = 200, 3

part = Part("strides", tables="tables", settings=Settings)
part.queue("strides", concurrency=10)

# Read limits belong to the application, so that all athletes share them: quarter hours and days of
# UTC. Headers of each answer correct both limits and what is used of them.
QUOTA = Quota("strava", windows={"15m": 100, "1d": 1000}, reserve=5)


def settings() -> Settings:
    found: Settings = part.settings
    return found
