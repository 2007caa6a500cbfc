"""Old and new programs on one database: a rolling deploy, and a schema that is one migration ahead.

Old workers know fewer tasks than new ones. What they do not know they leave alone, however much of it there
is, and a new worker runs it. A database whose schema is one ahead and says that older code may still work
on it goes on being worked on; one that says that it may not is refused, politely and at once.
"""

from __future__ import annotations

import time
from collections import Counter

from proof.section import Result, Scale, Section
from proof.storms import BACKLOG, Storm, counted, storm, until
from tests.support.postgres import server

OLD = "plain,bare,flaky"
SECONDS = {"short": 2.0, "full": 40.0}
# What `duework run` ends with where the schema does not fit.
REFUSED = 78
DRAINED_WITHIN = 90.0
PLANT = "a worker takes what it does not know"
_AHEAD = """insert into duework_migration (part, number, name, compatible)
    select 'duework', max(number) + 1, 'of_the_future', {compatible}
    from duework_migration where part = 'duework'"""


def _deploy(this: Storm, seconds: float) -> list[str]:
    """Old workers, then both, then new ones; the schema moves ahead under them."""
    old = [this.start(PROOF_TASKS=OLD) for _ in range(2)]
    this.load(0.03)
    this.begun()
    time.sleep(seconds / 3)
    with this.app.transaction() as tx:
        # What a later version might do: a column that older code does not know.
        tx.write("alter table duework_job add column of_the_future integer")
        tx.write(_AHEAD.format(compatible=1))
    this.faults["migrations ahead of the code"] += 1
    this.start()
    old.append(this.start(PROOF_TASKS=OLD))
    time.sleep(seconds / 3)
    this.quiet()
    wrong = _wrong(this)
    if not wrong and any(worker.poll() is not None for worker in old):
        wrong.append("an old worker gave up")
    for worker in old:
        this.terminate(worker)
    if not this.drained(DRAINED_WITHIN):
        wrong.append(f"{this.open_jobs()} jobs did not end")
    return wrong


def _wrong(this: Storm) -> list[str]:
    """No job may fail because somebody did not know it."""
    rows = this.app.read(
        "select task, error from duework_job where state = 'failed'"
        " and task not in ('doomed', 'hopeless')"
    )
    return [f"{row.task} failed: {row.error}" for row in rows][:3]


def _refused(this: Storm) -> list[str]:
    """A schema that this code may not work on: it ends with a word, and changes nothing."""
    with this.app.transaction() as tx:
        tx.write("delete from duework_migration where name = 'of_the_future'")
        tx.write(_AHEAD.format(compatible=999))
    before = this.app.read("select count(*) as n from hist")[0].n
    worker = this.start()
    code = worker.wait(60)
    this.workers.remove(worker)
    this.faults["schema refused"] += code == REFUSED
    wrong = [] if code == REFUSED else [f"a worker on a newer schema ended with {code}"]
    if this.told("upgrade duework") == 0:
        wrong.append("nobody was told what to do about it")
    if this.app.read("select count(*) as n from hist")[0].n != before:
        wrong.append("a worker that was refused has changed something")
    with this.app.transaction() as tx:
        tx.write("delete from duework_migration where name = 'of_the_future'")
    return wrong


def _one(result: Result, url: str | None, label: str, scale: Scale) -> None:
    with storm(url, result.seed, PROOF_BACKLOG=BACKLOG[scale]) as this:
        wrong = _deploy(this, SECONDS[scale])
        wrong += _refused(this)
        history, violations = this.judge()
        result.violations += [f"{label}: {each}" for each in [*wrong, *violations]]
        result.counts |= {f"{label}: {k}": v for k, v in counted(history, this.faults).items()}
        known = Counter(job.task in OLD.split(",") for job in history.jobs.values())
        result.counts[f"{label}: jobs that only new workers know"] = known[False]
    result.floors |= {
        f"{label}: jobs done": 5,
        f"{label}: jobs that only new workers know": 3,
        f"{label}: schema refused": 1,
    }


def _planted(seed: int) -> bool:
    with storm(None, seed, PROOF_PLANT=PLANT) as this:
        this.start(PROOF_TASKS=OLD)
        this.load(0.03)
        return bool(until(lambda: _wrong(this) or this.told("KeyError"), 60))


def deploy(scale: Scale, seed: int) -> Result:
    """A deploy on each database, and a worker that takes too much."""
    result = Result(seed)
    with server() as own:
        for label, url in (("SQLite", None), ("PostgreSQL", own.create_database("versions"))):
            _one(result, url, label, scale)
    result.planted[PLANT] = _planted(seed)
    result.notes.append(
        "A worker that is running when a schema comes that it may not work on is not told; such a"
        " migration needs the old workers stopped first."
    )
    return result


SECTION = Section(
    "versions",
    "Programs of different versions",
    "Workers that do not know a task leave its jobs to those that do. A schema one migration ahead is"
    " worked on if it says so, and refused at once if not; nothing is lost or run twice.",
    deploy,
)
