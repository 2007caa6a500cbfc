"""What becomes of a job after a crash, and of one that does not fit the worker that has claimed it.

Neither is a failure of the task, and neither uses up its retries. After a first crash a job runs as before,
after two in a row as a suspect, then alone; each from a lane of its own kind. A misfit is left to workers of
another version. Both have an end.
"""

from __future__ import annotations

import msgspec

from duework.db.database import Tx
from duework.kernel.job import ALONE, POISON, Ending, LockedJob, State
from duework.kernel.lanes import JOBS, Lanes

# A misfit is tried again so often, each time after twice as long up to ten minutes: for an hour in all.
MISFIT_RETRIES = 12
_FIRST_MS, _LONGEST_MS = 5_000, 600_000


def after_crash(
    tx: Tx, row: LockedJob, ending: Ending, *, now: int, lanes: Lanes
) -> tuple[State, int, int, int]:
    """State, due, lane and crashes; the third crash alone is the job's own fault."""
    crashes = row.crashes + ending.alone
    if crashes >= POISON and not ending.immortal:
        return "failed", now, row.lane, crashes
    level = lanes.name(tx, row.lane).alone
    lane = row.lane
    if ending.repeated:
        lane = lane_among(tx, row, lanes, alone=min(level + 1, ALONE))
    # It leaves some time to those it may have harmed.
    delay = 1000 * 2 ** min(max(crashes - 1, 0), 10) if ending.alone or level == ALONE else 0
    return "open", now + delay, lane, crashes


def lane_among(tx: Tx, row: LockedJob, lanes: Lanes, *, alone: int) -> int:
    """Its lane among suspects, or among the others: there belongs whatever has ended by itself."""
    name = lanes.name(tx, row.lane)
    if name.alone == alone:
        return row.lane
    return lanes.number(tx, msgspec.structs.replace(name, alone=alone))


def after_misfit(tx: Tx, row: LockedJob, ending: Ending, *, now: int) -> Ending:
    """Put off, so that another version can take it; failed once that was tried often enough."""
    before = _misfits(tx, row)
    if before >= MISFIT_RETRIES and not ending.immortal:
        tries = f"no worker that it fits has taken it in {before + 1} tries over an hour"
        return ending.but(kind="failed", error=f"{ending.error}; {tries}")
    return ending.but(due=now + min(_FIRST_MS << before, _LONGEST_MS))


def _misfits(tx: Tx, row: LockedJob) -> int:
    """How often in a row it did not fit: one that ran in between has left a gap, or another outcome."""
    count = 0
    values = {"job": row.id, "wanted": MISFIT_RETRIES}
    for fence, outcome in tx.query(JOBS.last_attempts, values):
        if outcome != "misfit" or fence != row.fence - count - 1:
            break
        count += 1
    return count
