"""The commands of the shapes: one file each, found by the shape's name.

`cli/shapes/batches.py` has the group `batches`, and `duework batches` is there because the file is.
"""

from __future__ import annotations

import importlib
import pkgutil

import click


def names() -> list[str]:
    """The shapes that have commands: the files of this folder, by name."""
    return sorted(each.name for each in pkgutil.iter_modules(__path__))


def found(name: str) -> click.Group:
    """The commands of one shape."""
    group = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    assert isinstance(group, click.Group), f"{__name__}.{name} has no group {name!r}"
    return group


def groups() -> list[click.Group]:
    """The commands of all of them."""
    return [found(name) for name in names()]
