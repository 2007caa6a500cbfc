"""The five systems and the page on which they can be disturbed."""

from __future__ import annotations

from systems.app import app
from systems.demo import pages
from systems.demo.part import part

app.include(part)

__all__ = ["app", "pages"]
