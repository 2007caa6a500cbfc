"""What an operator needs to know of all syncs at once, and to put right a row that says what is not so."""

from __future__ import annotations

from typing import Any

from duework import Conflict
from systems.strides import reading, sync
from systems.strides.athlete import find
from systems.strides.part import part

STUCK = """
update strides_athlete set sync_status = 'error', sync_outcome = 'failed',
sync_error = 'Reset by an operator', sync_session_id = null, current_batch_number = 0,
sync_version = sync_version + 1
where id = :id and sync_status = 'in_progress'
"""


@part.route("/api/admin/health")
def health() -> dict[str, Any]:
    """Athletes, syncs, pages by their phase, the quota, and who is stuck."""
    people, active = reading.athletes(), reading.active()
    running = {chain.arguments["athlete"] for chain in active}
    stuck = [row.id for row in people if row.sync_status == "in_progress" and row.id not in running]
    pages: dict[str, int] = {}
    for chain in active:
        for page in chain.pages(after=chain.completed, limit=1):
            status = reading.status_of(page.phase)
            pages[status] = pages.get(status, 0) + 1
    quota = reading.quotas()
    return {
        "healthy": not stuck,
        "athletes": len(people),
        "connected": sum(row.connected for row in people),
        "syncs": len(active),
        "queue": pages,
        "stuck": stuck,
        "quota": {
            "quarter": [quota.quarter.used, quota.quarter.limit],
            "day": [quota.day.used, quota.day.limit],
            "waits_until": quota.waits_until,
        },
    }


@part.route("/api/admin/athletes/{athlete}/reset", methods=["POST"])
def reset(athlete: int) -> dict[str, bool]:
    """Put right a row that says that a sync is under way where none is; a real one is cancelled."""
    find(athlete)
    chain = sync.latest(athlete)
    if chain is not None and chain.state == "active":
        message = (
            f"the sync {chain.arguments['session']} is under way: cancel it, or leave it alone"
        )
        raise Conflict(message)
    with part.app.transaction() as tx:
        changed = tx.write(STUCK, id=athlete)
    return {"reset": bool(changed.changed)}
