"""How many workflows of five steps per second, each step recorded with an effect of its own?

With `--peers`, beside DBOS on SQLite: its steps are recorded, too, and have no effect. There is no bar.
"""

from __future__ import annotations

import json
import os
import subprocess

from bench.bed import ROOT, Bed, ScenarioFailed
from bench.figures import Figure
from bench.install import install, python
from bench.workflows import Outcome, run

QUESTION = (
    "How many workflows of five steps per second, each step recorded with an effect of its own?"
)
FIGURES = (
    Figure("workflows", "workflows: 5 steps, an effect each", "/s"),
    Figure("workflows_dbos", "workflows: 5 steps without effects, DBOS on SQLite", "/s"),
    Figure("pg_workflows", "PostgreSQL: workflows", "/s"),
)
WITHIN = 300


def sample(bed: Bed) -> dict[str, float]:
    url, served = bed.sqlite(), bed.postgres()
    found = {
        "workflows": _rate(run(url, bed.scaled(10_000, 500))),
        "pg_workflows": _rate(run(served, bed.scaled(3_000, 200))),
    }
    bed.drop(url)
    bed.drop(served)
    if bed.peers and bed.once("install dbos", lambda: install("dbos")) is None:
        count = bed.scaled(1_000, 100)
        found["workflows_dbos"] = count / _theirs(bed, count)
    return found


def _rate(found: Outcome) -> float:
    assert found.whole, f"{found}"
    return found.workflows / found.seconds


def _theirs(bed: Bed, count: int) -> float:
    """Seconds, in a process and an environment of its own."""
    folder = bed.folder / f"dbos-{len(list(bed.folder.iterdir()))}"
    folder.mkdir()
    ended = subprocess.run(
        [str(python("dbos")), "-m", "bench.peers.dbos_workflows", str(count)],
        cwd=ROOT,
        env=os.environ | {"PEER_FOLDER": str(folder), "PYTHONPATH": ""},
        capture_output=True,
        timeout=WITHIN,
        check=False,
    )
    if ended.returncode or not ended.stdout:
        raise ScenarioFailed(f"workflows of DBOS: {ended.stderr.decode()[-1000:]}")
    return float(json.loads(ended.stdout.splitlines()[-1]))
