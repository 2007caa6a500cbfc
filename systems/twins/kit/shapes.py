"""Whether what a client sent has the shape that the rest of a twin relies on.

A shape is a type, a list with the shape of its items, a dict with the shapes of some keys, or a tuple
of shapes of which one has to fit. What is absent or null fits: whether it may be missing is another
question, and has its own words in each upstream.
"""

from __future__ import annotations

from typing import Any

NUMBER = (int, float)


def misfit(value: Any, shape: Any, path: str = "") -> str | None:
    """The path to the first thing that does not fit; None if all does."""
    if value is None:
        return None
    if isinstance(shape, tuple):
        found = [misfit(value, each, path) for each in shape]
        return None if None in found else found[0]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return path or "body"
        items = (misfit(each, shape[0], f"{path}[{n}]") for n, each in enumerate(value))
        # An item cannot be absent.
        missing = (f"{path}[{n}]" for n, each in enumerate(value) if each is None)
        return next((each for each in items if each), None) or next(missing, None)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return path or "body"
        below = (
            misfit(value.get(key), each, f"{path}.{key}" if path else key)
            for key, each in shape.items()
        )
        return next((each for each in below if each), None)
    fits = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
    return None if fits else path or "body"
