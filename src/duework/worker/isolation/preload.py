"""Imported by the fork server when it starts, so that its children have their program already.

A module that cannot be imported is left to the child that needs it, which can say so.
"""

import contextlib
import importlib
import os

if (module := os.environ.get("DUEWORK_ISOLATED", "__main__")) != "__main__":
    with contextlib.suppress(Exception):
        importlib.import_module(module)
