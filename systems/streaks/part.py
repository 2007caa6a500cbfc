"""The part: everything of this system is declared on it."""

from __future__ import annotations

from duework import Part
from systems.streaks.settings import Settings

part = Part("streaks", tables="tables", settings=Settings)
