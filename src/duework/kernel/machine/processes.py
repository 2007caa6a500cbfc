"""Which process holds a lease, and whether it still lives.

On one host a dead holder is seen at once: by its pid, the time it was born, the boot and the pid
namespace it belongs to. For a process elsewhere only the end of its lease says so: machines share their
names and, as clones, all else that could be compared, so another boot is a reboot only where the
database is a file, which no other machine has.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

Verdict = Literal["alive", "dead", "rebooted", "elsewhere"]

_BORN = 19  # the 22nd field of /proc/<pid>/stat, counted after the command's name


@dataclass(frozen=True, slots=True)
class Process:
    """A worker's process, as it is stored."""

    id: int
    host: str
    boot: str
    space: str
    pid: int
    born: int
    started: int


@lru_cache(maxsize=1)
def boot() -> str:
    """Which boot of the machine this is; empty where that is not to be had."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _born(pid: int) -> int | None:
    """When the process was started, in ticks since boot; None if there is none, or only its ghost.

    `PermissionError` if there is one that may not be looked at.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        # Processes of others may be hidden; a signal that is not sent shows whether they are there.
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        raise PermissionError(f"process {pid} is hidden") from None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_BORN])


def memory_of(pid: int) -> int | None:
    """The bytes that a process of this machine has in memory; None where the system does not tell."""
    try:
        resident = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(resident) * os.sysconf("SC_PAGE_SIZE")


def this_process(identifier: int, started: int) -> Process:
    pid = os.getpid()
    born = _born(pid) or 0
    return Process(identifier, socket.gethostname(), boot(), _space(), pid, born, started)


def verdict(process: Process, *, near: bool) -> Verdict:
    """What can be said about it from here; `near` if all that use the database are on this machine."""
    if not process.boot or not boot():
        return "elsewhere"
    if process.boot == boot():
        if process.space != _space():
            return "elsewhere"
        try:
            return "alive" if _born(process.pid) == process.born else "dead"
        except PermissionError:
            return "elsewhere"
    # A guest with a kernel of its own may share the file; it has a name of its own, too.
    same = near and process.host == socket.gethostname()
    return "rebooted" if same else "elsewhere"


def watch(process: Process) -> int | None:
    """A descriptor that becomes readable when the process ends; None if it is not to be had."""
    if verdict(process, near=False) != "alive" or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        return None
