"""What operators and running jobs ask of a pace, outside of a claim."""

from __future__ import annotations

from collections.abc import Callable

from duework.clock import FOREVER
from duework.codec import encode
from duework.db.database import Tx
from duework.errors import NotFound
from duework.kernel.paces.admission import PACES, locked, save, stored
from duework.kernel.paces.pace import UNTIL_ASKED, Pace, State

# From one state to another.
Change = Callable[[State], State]


def change(tx: Tx, name: str, kind: str | None, how: Change, *, now: int) -> None:
    """An operator's wish: another state, and lanes that look at it at once."""
    if kind is not None:
        # Declared, and nothing was admitted by it yet.
        tx.bulk(PACES.new_pace, [(name, kind, now)])
    rows = tx.query(PACES.lock_paces, {"names": [name]})
    if not rows:
        raise NotFound(f"there is no pace {name}; `duework paces list` names those there are")
    state = how(stored(rows[0][1]))
    until = state.get("blocked", 0)
    # What was used is counted anew with the state; a limit is not known here.
    used = state.get("used", 0)
    idle = max(until, now) if name.endswith("]") else None
    values = (encode(state), used, used, until, idle, now, name)
    tx.bulk(PACES.save_pace, [values])
    tx.query(PACES.lanes_earlier, {"pace": name, "due": 0, "forever": FOREVER})


def take(tx: Tx, name: str, pace: Pace, units: int, *, now: int) -> bool:
    """Take so much of it outside of a claim: all of it, or nothing if that is not left."""
    rows = locked(tx, {name: pace}, now)
    row = rows[name]
    pace.bring_up(row.state, now)
    granted = pace.left(row.state, now) >= units
    if granted:
        pace.take(row.state, now, units)
        row.changed = row.taken = True
    save(tx, rows, now)
    return granted


def block(length: int, now: int) -> Change:
    """Nothing is admitted for a while; 0 ends that."""
    until = min(now + length, UNTIL_ASKED) if length else 0
    return lambda state: {**state, "blocked": until}


def reset(state: State) -> State:  # noqa: ARG001 - whatever it was
    """As if it had never admitted anything."""
    return {}


def run(*, running: bool) -> Change:
    return lambda state: {**state, "running": int(running)}
