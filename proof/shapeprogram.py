"""The program of the storms of shapes: `duework run proof.shapeprogram:app`.

The same variables as `program.py`; PROOF_PLANT names bugs of `shapeplants.py`, several with a semicolon.
UPSTREAM is the folder of the twin that messages are sent to.
"""

from __future__ import annotations

import os

from duework import App
from proof import shapework
from proof.shapeplants import PLANTS, STALE

for plant in filter(None, os.environ.get("PROOF_PLANT", "").split(";")):
    {**PLANTS, **STALE}[plant].enter().__enter__()

app = App(
    lease=os.environ.get("PROOF_LEASE", "1500ms"),
    grace="2s",
    concurrency=int(os.environ.get("PROOF_SLOTS", "4")),
    processes=1,
)
shapework.define(app)
