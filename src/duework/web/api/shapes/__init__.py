"""The shapes by HTTP: one file each, found by the shape's name, with its `OPERATIONS`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from duework.web.api.operation import Operation


def operations() -> Iterator[Operation]:
    """Those of every file of this folder."""
    for name in sorted(each.name for each in pkgutil.iter_modules(__path__)):
        yield from importlib.import_module(f"{__name__}.{name}").OPERATIONS
