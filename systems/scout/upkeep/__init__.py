"""Upkeep: what is noted once a day, what is watched, and what leaves the database."""

from systems.scout.upkeep import archive, daily

__all__ = ["archive", "daily"]
