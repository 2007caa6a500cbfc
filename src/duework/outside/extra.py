"""Libraries that are installed with `duework[outside]`, and imported when something needs them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from duework.errors import UsageError


@contextlib.contextmanager
def extra(what: str) -> Iterator[None]:
    """An import in this block that fails says what to install."""
    try:
        yield
    except ImportError as error:
        message = f"{what} needs {error.name}: pip install 'duework[outside]'"
        raise UsageError(message) from error
