"""What a run was measured on: a figure without its machine means little."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import apsw
import psycopg

from bench.bed import ROOT, Bed


def machine(bed: Bed) -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _from("/proc/cpuinfo", "model name"),
        "memory_gb": round(int(_from("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "postgres": _postgres(bed),
        "psycopg": psycopg.__version__,
        # On a file system in memory an fsync is free, and no figure means anything.
        "file_system": _file_system(bed.folder),
        "postgres_file_system": _file_system(Path(tempfile.gettempdir())),
        "load_before": round(os.getloadavg()[0], 2),
    }


def commit() -> tuple[str, bool]:
    """The commit that is measured, and whether the tree has changes that are in none."""
    changes = _git("status", "--porcelain", "--", "src", "bench/*.py", "bench/scenarios")
    return _git("rev-parse", "--short=10", "HEAD") or "unknown", bool(changes)


def _git(*arguments: str) -> str:
    ended = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return ended.stdout.strip()


def _from(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "0 unknown"


def _postgres(bed: Bed) -> str:
    with psycopg.connect(bed.server.dsn) as connection:
        found = connection.execute("show server_version").fetchone()
        return str(found[0]) if found else "unknown"


def _file_system(folder: Path) -> str:
    """The type of the mount that the folder lies on."""
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        if folder.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
