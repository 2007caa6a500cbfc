"""What the processes of a measurement take, as the system counts it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class Watch:
    """The largest of the processes that this one has started, as the system counts them."""

    def __init__(self) -> None:
        self.memory_mb = 0.0
        self.cpu: dict[int, float] = {}

    def seen(self, done: bool) -> bool:  # noqa: FBT001 - what it is asked about
        """Look once more; whether it is done."""
        self.look()
        return done

    def look(self) -> None:
        parents = dict[int, int]()
        for name in os.listdir("/proc"):
            with suppress(OSError, ValueError, IndexError):
                stat = Path("/proc", name, "stat").read_text().rsplit(")", 1)[1].split()
                parents[int(name)] = int(stat[1])
                if self._ours(int(name), parents):
                    ticks = os.sysconf("SC_CLK_TCK")
                    self.cpu[int(name)] = (int(stat[11]) + int(stat[12])) / ticks
                    self._memory(name)

    def _ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    def _memory(self, name: str) -> None:
        for line in Path("/proc", name, "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                self.memory_mb = max(self.memory_mb, int(line.split()[1]) / 1024)
