"""Children that differ only in where they are killed, and a way to tell that two left the same files.

A process draws ids by chance and has a pid of its own, so no two of them write the same bytes. Here
chance and identity are taken out of a child, and what a killed one left is summed up without the salts
that SQLite draws for its log. Between two writes there are hundreds of instructions: killed at any of them
the files are the same, and the next process need not look at the same files with the same answers twice.
"""

from __future__ import annotations

import hashlib
import random
import secrets
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from duework.kernel.machine import processes
from duework.kernel.machine.processes import Process

_HEADER, _FRAME = 32, 24


def without_chance() -> None:
    """Of this process, which is a child and will not live long: the same numbers in each."""
    chance = random.Random(0)

    def bits(k: int) -> int:
        return chance.getrandbits(k)

    secrets.randbits = bits
    real = processes.this_process

    def this_process(identifier: int, started: int) -> Process:
        # There is a process 1, and it was not born then: whoever looks finds the holder dead.
        return replace(real(identifier, started), pid=1, born=-1)

    processes.this_process = this_process


def fingerprint(path: Path, beside: list[Path], answers: list[Any]) -> bytes:
    """What the next process will find, and what its predecessor had promised."""
    found = hashlib.blake2b(repr(answers).encode(), digest_size=16)
    for each in (path, Path(f"{path}-journal"), *sorted(beside)):
        data = each.read_bytes() if each.exists() else b"missing"
        found.update(struct.pack("<q", len(data)) + data)
    log = Path(f"{path}-wal")
    found.update(_frames(log.read_bytes()) if log.exists() else b"missing")
    return found.digest()


def _frames(log: bytes) -> bytes:
    """The log without its salts and without the checksums that depend on them."""
    if len(log) < _HEADER:
        return log
    size = int.from_bytes(log[8:12], "big") + _FRAME
    parts = [log[:16], struct.pack("<q", len(log))]
    for start in range(_HEADER, len(log), size):
        frame = log[start : start + size]
        parts += [frame[:8], bytes([frame[8:16] == log[16:24]]), frame[_FRAME:]]
    return b"".join(parts)
