"""What paces give to work that is not jobs: how many now, when more, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duework.db.database import Tx
from duework.kernel.paces.admission import PACES, Gate, locked, save, stored
from duework.kernel.paces.pace import Pace, State


def look(tx: Tx, gates: Sequence[Gate], most: int, *, now: int) -> tuple[int, int, int]:
    """How many would be admitted, the interval of one that ticks (0: none does), and when to ask again.

    Nothing is locked, and nothing is written.
    """
    left, interval, again = most, 0, now
    for gate in gates:
        state = _state(tx, gate.name, gate.pace)
        gate.pace.bring_up(state, now)
        given = gate.pace.left(state, now) // gate.pace.units
        left = min(left, given)
        interval = max(interval, int(state.get("interval", 0)))
        ticked = gate.pace.kind in {"tick", "adaptive"} and state["used"]
        if not given or ticked:
            again = max(again, gate.pace.again(state, now))
    return left, interval, again


def take_now(tx: Tx, gates: Sequence[Gate], wanted: int, *, now: int) -> int:
    """Take up to so many of all of them; how many."""
    rows = locked(tx, {gate.name: gate.pace for gate in gates}, now)
    for row in rows.values():
        row.pace.bring_up(row.state, now)
    left = [
        rows[gate.name].pace.left(rows[gate.name].state, now) // gate.pace.units for gate in gates
    ]
    count = min([wanted, *left])
    for gate in gates if count else ():
        row = rows[gate.name]
        row.pace.take(row.state, now, count * gate.pace.units)
        row.changed = row.taken = True
    save(tx, rows, now)
    return count


def shown(tx: Tx, name: str, pace: Pace | None, *, now: int) -> dict[str, Any] | None:
    """What a pace says of itself; None if this process does not know it."""
    return None if pace is None else pace.show(_state(tx, name, pace), now)


def _state(tx: Tx, name: str, pace: Pace) -> State:
    rows = tx.query(PACES.look, {"name": name})
    return pace.load(stored(rows[0][0]) if rows else {})
