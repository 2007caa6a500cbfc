"""The record of runs: one line of JSON each, with every sample, in `history.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

HISTORY = Path(__file__).with_name("history.jsonl")


class Record(msgspec.Struct, omit_defaults=True):
    """One run."""

    when: str
    commit: str
    dirty: bool
    # Every scenario, at full size.
    full: bool
    peers: bool
    repeat: int
    seconds: float
    machine: dict[str, Any]
    samples: dict[str, list[float]]
    # What could not be measured, and why.
    missing: dict[str, str] = {}
    failed: dict[str, str] = {}
    # Seconds that each scenario took, round by round.
    took: dict[str, list[float]] = {}


def append(record: Record, path: Path = HISTORY) -> None:
    rounded = {name: [_short(v) for v in values] for name, values in record.samples.items()}
    line = msgspec.json.encode(msgspec.structs.replace(record, samples=rounded))
    with path.open("ab") as file:
        file.write(line + b"\n")


def load(path: Path = HISTORY) -> list[Record]:
    """All runs, oldest first."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [msgspec.convert(json.loads(line), Record) for line in lines if line]


def last(records: list[Record], *, peers: bool = False) -> Record | None:
    """The last full run; with the peers in it if that is asked for."""
    fitting = [record for record in records if record.full and (record.peers or not peers)]
    return fitting[-1] if fitting else None


def _short(value: float) -> float:
    return float(f"{value:.5g}")
