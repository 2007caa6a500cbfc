"""The program of the storms: `duework run proof.program:app`, as anybody would run theirs.

DUEWORK_URL is its database, PROOF_LEASE its lease, PROOF_TASKS the tasks it knows (all), PROOF_PLANT a bug
to plant, RUNS the file for notes. What becomes of a COMMIT whose answer was lost is noted too.
"""

from __future__ import annotations

import os
from typing import Any

from duework import App
from duework.db.postgres.database import PostgresDatabase
from proof import tasks
from proof.plants import PLANTS

LEASE = os.environ.get("PROOF_LEASE", "1500ms")

if (plant := os.environ.get("PROOF_PLANT")) is not None:
    PLANTS[plant]().__enter__()

app = App(lease=LEASE, grace="2s", concurrency=int(os.environ.get("PROOF_SLOTS", "4")), processes=1)
tasks.define(
    app, only=os.environ.get("PROOF_TASKS", "").split(",") if "PROOF_TASKS" in os.environ else ()
)

_decide = PostgresDatabase._decide


def _noted(self: PostgresDatabase, error: Any) -> None:
    """Note that an answer was lost, and what was found out."""
    found = "unknown"
    try:
        _decide(self, error)
        found = "happened"
    except Exception as raised:
        found = "did not happen" if type(raised).__name__ == "Retryable" else found
        raise
    finally:
        tasks.append({"what": "decided", "found": found, "job": 0, "fence": 0})


if os.environ.get("RUNS"):
    PostgresDatabase._decide = _noted  # type: ignore[method-assign]  # noted, then as before
