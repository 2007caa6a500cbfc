"""Strides: athletes' races from Strava, by a sync that goes on by itself within one shared quota."""

from __future__ import annotations

from duework import App
from systems.strides import admin, cli, pages, pushes, routes
from systems.strides.board import byhand, racing
from systems.strides.part import part
from systems.strides.sync import activities

__all__ = [
    "activities",
    "admin",
    "app",
    "byhand",
    "cli",
    "pages",
    "part",
    "pushes",
    "racing",
    "routes",
]

app = App()
app.include(part)
