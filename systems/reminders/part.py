"""The Part: everything of this system hangs on it."""

from __future__ import annotations

from duework import Part
from systems.reminders.settings import Settings

part = Part("reminders", tables="tables", settings=Settings)
part.queue("reminders", concurrency=part.settings.limit)


def settings() -> Settings:
    """The settings with their type."""
    found: Settings = part.settings
    return found
