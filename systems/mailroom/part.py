"""The Part itself: its name, its tables, its settings. Everything else hangs on it."""

from __future__ import annotations

from duework import Part
from systems.mailroom.settings import Settings

part = Part("mailroom", tables="tables", settings=Settings)
