"""Puts other libraries into virtual environments of their own, by the pinned lists in `peers/`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from bench.bed import BUILD, ROOT

GROUPS = ("server", "redis", "taskiq", "postgres", "dbos")


def requirements(group: str) -> Path:
    return ROOT / "bench" / "peers" / f"requirements-{group}.txt"


def python(group: str) -> Path:
    return BUILD / group / "bin" / "python"


def install(group: str) -> str | None:
    """Make a group's environment unless it is there already; why it cannot be had, if it cannot."""
    folder, wanted = BUILD / group, requirements(group)
    stamp = folder / ".installed"
    mark = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == mark:
        return None
    pip = [str(python(group)), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [*pip, "install", "--requirement", str(wanted)],
    )
    for command in commands:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            lines = [line for line in ended.stderr.splitlines() if "ERROR" in line]
            return (
                f"not installed ({(lines or ended.stderr.splitlines() or ['no reason given'])[-1]})"
            )
    stamp.write_text(mark)
    return None


def redis_server() -> Path | None:
    """A redis-server: the machine's own, or the one that a wheel carries."""
    if found := shutil.which("redis-server"):
        return Path(found)
    return next(iter((BUILD / "server").glob("lib/*/site-packages/*/bin/redis-server")), None)
