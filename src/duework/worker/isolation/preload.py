"""Imported by the fork server when it starts, so that its children have their program already.

A module that cannot be imported is left to the child that needs it, which can say so. When the server ends,
since its worker did, it ends what its children have started, too.
"""

import atexit
import contextlib
import importlib
import os
import signal
from pathlib import Path

_SERVER = os.getpid()


def _end_groups() -> None:
    """Kill each child with its whole group. Our death kills the child alone."""
    if os.getpid() != _SERVER:
        # A child, which runs what it has inherited.
        return
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(stat.parent.name)
            _, parent, group, *_ = stat.read_text().rpartition(")")[2].split()
            # Very early it has no group of its own yet, and has started nothing.
            if int(parent) == _SERVER and int(group) == pid:
                os.killpg(pid, signal.SIGKILL)


if "DUEWORK_ISOLATED" in os.environ:
    atexit.register(_end_groups)

if (module := os.environ.get("DUEWORK_ISOLATED", "__main__")) != "__main__":
    with contextlib.suppress(Exception):
        importlib.import_module(module)
