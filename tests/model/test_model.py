"""The kernel on SQLite and on PostgreSQL against its model, step by step.

A random walk over the verbs; after each step the answers, every job row, the history, the keys, the
lanes and the reactions must be the same in all three. `MODEL_EXAMPLES` and `MODEL_STEPS` make it longer,
`MODEL_SEED` takes another way; the same seed takes the same one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.errors import Error
from duework.kernel import lanes
from duework.kernel import recover as recovery
from duework.kernel.job import KEEP, TRANSITIONS, Ending, JobId, LaneName, NewJob
from duework.kernel.lanes import Lanes
from duework.testing import Counter as Ids
from tests.model.model import Model
from tests.support.kernel import LEASE, ME, OTHER, START, Kernel
from tests.support.postgres import Server

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "60"))
STEPS = int(os.environ.get("MODEL_STEPS", "40"))
SEED = int(os.environ.get("MODEL_SEED", "1"))
# Shrinking a failure takes minutes; without MODEL_SHRINK=1 it is shown as it came.
PHASES = [
    phase for phase in Phase if phase != Phase.shrink or os.environ.get("MODEL_SHRINK") == "1"
]
MISSING = 99
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    # On a CI machine Hypothesis would walk the same way in every batch.
    derandomize=False,
    print_blob=True,
    phases=PHASES,
    suppress_health_check=list(HealthCheck),
)
# What chance has left out after one batch of examples, it gets a few more to find.
BATCHES = 6
TABLES = ("job", "attempt", "once", "worker", "pause", "lane", "batch")
TASKS = ("mail", "scan", "tidy")

JOBS = """
    select j.id, l.queue, l.task as lane_task, l.priority, l.alone, j.task, j.key, j.state, j.due,
           j.at, j.fence, j.worker, j.failures, j.crashes, j.payload, j.result, j.error, j.expires,
           j.serial, j.after, j.again, j.cancel_reason, j.settled
    from duework_job j join duework_lane l on l.id = j.lane order by j.id"""
ATTEMPTS = """select job, fence, outcome, worker, started, ended, error
              from duework_attempt order by job, fence"""
ONCE = "select task, key, job, until from duework_once order by task, key"
BATCHED = """select id, total, done, failed, cancelled, gone, settled, due, fired, then_job
             from duework_batch order by id"""
LANES = "select queue, task, priority, alone, id, due from duework_lane order by id"
PAUSED = "select queue from duework_pause order by queue"

rarely = st.sampled_from([False] * 7 + [True])
# Chance likes the ends of a range of integers; a list it takes as it is.
places = st.sampled_from([*range(16), MISSING])
workers = st.sampled_from([ME, OTHER])
new_jobs = st.fixed_dictionaries(
    {
        "task": st.sampled_from(TASKS),
        "queue": st.sampled_from(["default", "other"]),
        "priority": st.sampled_from([0, 0, 0, 9]),
        "delay": st.sampled_from([0, 0, 0, -500, 700, 20_000]),
        "key": st.sampled_from([None, None, "a", "b"]),
        "once": st.sampled_from([None, None, None, 1000, 60_000]),
        "replace": st.booleans(),
        "again": st.booleans(),
        "expires": st.sampled_from([None, None, None, 500, 30_000]),
        "serial": st.sampled_from([None, None, None, "s", "t"]),
        "after": st.one_of(st.none(), st.none(), st.none(), places),
    }
)
endings = st.fixed_dictionaries(
    {
        "place": places,
        "kind": st.sampled_from(
            [
                *["done", "done", "done", "retry", "snooze", "failed", "cancelled"],
                *["crashed", "lost", "released", "misfit"],
            ]
        ),
        "delay": st.sampled_from([0, 0, 900, 5000]),
        "keep": st.sampled_from([KEEP, KEEP, None, 0, 1000]),
        "watched": st.booleans(),
        "effect": st.sampled_from([None, None, "good", "bad"]),
        "stale": rarely,
    }
)


queues = st.sampled_from(["default", "other", "*"])
steps = st.sampled_from([1, 500, 1000, 5000, LEASE, LEASE + 1, 60_000, KEEP])


def fails(_tx: Tx) -> None:
    raise ZeroDivisionError


class Walk(RuleBasedStateMachine):
    """One walk: the same verb on the model and on both databases."""

    kernels: ClassVar[list[Kernel]]
    succeeded: ClassVar[Counter[str]]
    seen: ClassVar[set[tuple[str, str | None, str | None]]]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(START, LEASE)
        # Every lease that was ever given, so that old ones can be tried.
        self.leases: list[tuple[int, int, int]] = []
        for kernel in self.kernels:
            kernel.run(lambda tx: [tx.write(f"delete from duework_{name}") for name in TABLES])
            kernel.lanes, kernel.ids, kernel.now, kernel.reacted = Lanes(), Ids(), START, []

    def both(self, verb: Callable[[Kernel], Any]) -> Any:
        """The databases' common answer; an error is an answer too."""
        answers = []
        for kernel in self.kernels:
            before = list(kernel.reacted)
            try:
                answers.append(verb(kernel))
            except Error as error:
                answers.append(f"refused: {type(error).__name__}")
                kernel.reacted = before
        assert answers[0] == answers[1]
        return answers[0]

    def same(self, verb: str, theirs: Any, ours: Any) -> None:
        assert theirs == ours, f"{verb}: the databases say {theirs}, the model says {ours}"
        if not (isinstance(ours, str) and ours.startswith("refused")):
            self.succeeded[verb] += bool(ours) or verb in {"pause", "resume", "advance"}
        else:
            self.succeeded[f"{verb} refused"] += 1
        self.seen |= self.model.seen
        for kernel in self.kernels:
            kernel.ids._last = self.model.last  # noqa: SLF001 - a refused call has drawn ids

    def job(self, place: int) -> int:
        """A job, now and then one that does not exist."""
        known = sorted(self.model.jobs)
        return known[place % len(known)] if known and place != MISSING else 10_000

    def jobs(self, wanted: list[int]) -> list[int]:
        return [self.job(place) for place in wanted]

    # --- verbs

    @rule(chosen=st.lists(new_jobs, min_size=1, max_size=3))
    def enqueue(self, chosen: list[dict[str, Any]]) -> None:
        now = self.model.now
        new = [
            NewJob(
                LaneName(c["queue"], c["task"], c["priority"]),
                payload=f"[{self.model.last + n}]",
                at=now + c["delay"],
                key=c["key"],
                once_until=None if c["once"] is None or not c["key"] else now + c["once"],
                replace=c["replace"],
                again=c["again"],
                expires=None if c["expires"] is None else now + c["expires"],
                serial=c["serial"],
                after=None if c["after"] is None else self.job(c["after"]),
            )
            for n, c in enumerate(chosen)
        ]
        theirs = self.both(lambda k: [(e.id, e.existed) for e in k.enqueue(*new)])
        self.same("enqueue", theirs, self.model.run("enqueue", new))

    @rule(
        chosen=new_jobs,
        size=st.sampled_from([0, 1, 2, 2, 3]),
        then=st.sampled_from(TASKS),
        key=st.sampled_from([None, None, None, "n"]),
        keep=st.sampled_from([KEEP, None, 1000]),
    )
    def batch(
        self, chosen: dict[str, Any], size: int, then: str, key: str | None, keep: int | None
    ) -> None:
        now = self.model.now
        more = {
            "at": now + chosen["delay"],
            "expires": None if chosen["expires"] is None else now + chosen["expires"],
            "serial": chosen["serial"],
            "after": None if chosen["after"] is None else self.job(chosen["after"]),
        }

        def verb(k: Kernel) -> Any:
            place = {"queue": chosen["queue"], "priority": chosen["priority"]}
            made = k.batch(chosen["task"], size, then=then, key=key, keep=keep, **place, **more)
            return made.id, made.existed

        lane = LaneName(chosen["queue"], chosen["task"], chosen["priority"])
        theirs = self.both(verb)
        ours = self.model.run("batch", NewJob(lane, "", **more), size, then, key, keep)
        self.same("batch", theirs, ours)

    @precondition(lambda self: self.model.batches)
    @rule(place=places, then=st.booleans())
    def retry(self, place: int, *, then: bool) -> None:
        known = sorted(self.model.batches)
        batch = known[place % len(known)] if place != MISSING else 10_000
        theirs = self.both(lambda k: k.retry_batch(batch, then=then))
        self.same("retry", theirs, self.model.run("retry", batch, then=then))

    @precondition(lambda self: self.model.batches)
    @rule(kind=st.sampled_from(["failed", "failed", "done"]), then=st.booleans())
    def work_off_a_batch(self, kind: str, *, then: bool) -> None:
        """All members end, and what failed is tried again; chance alone seldom gets there."""
        self.claim(ME, TASKS, 100, {})
        endings = [
            {"place": n, "kind": kind, "delay": 0, "keep": KEEP, "watched": False}
            | {"effect": None, "stale": False}
            for n in range(12)
        ]
        self.settle(endings)
        self.all_three_are_equal()
        self.retry(0, then=then)

    @rule(
        worker=workers,
        tasks=st.sampled_from([TASKS, TASKS, TASKS[:1], TASKS[1:]]),
        free=st.sampled_from([1, 2, 100]),
        limits=st.sampled_from([{}, {}, {"mail": 1}, {"mail": 2, "scan": 1}]),
    )
    def claim(self, worker: int, tasks: tuple[str, ...], free: int, limits: dict[str, int]) -> None:
        def verb(k: Kernel) -> Any:
            found = k.claim_as(k.want(*tasks, free=free, worker=worker, task_limits=limits))
            return [(job.id, job.fence) for job in found.jobs], found.next_due

        theirs = self.both(verb)
        ours = self.model.run("claim", worker, set(tasks), free, limits)
        self.same("claim", theirs if ours[1] else (theirs[0], None), ours)
        self.leases += [(job, fence, worker) for job, fence in ours[0]]

    def held(self, place: int, *, stale: bool) -> tuple[int, int, int] | None:
        """A lease that somebody has, or had."""
        live = [lease for lease in self.leases if self.model._ours(*lease)]  # noqa: SLF001
        found = self.leases if stale or not live else live
        return found[place % len(found)] if found else None

    @precondition(lambda self: self.leases)
    @rule(wanted=st.lists(st.tuples(places, rarely), min_size=1, max_size=3), worker=workers)
    def extend(self, wanted: list[tuple[int, bool]], worker: int) -> None:
        found = {self.held(place, stale=stale) for place, stale in wanted} - {None}
        self.extend_all(sorted({(job, fence) for job, fence, _ in found}), worker)  # type: ignore[misc]

    def extend_all(self, pairs: list[tuple[int, int]], worker: int) -> None:
        theirs = self.both(
            lambda k: k.run(
                lambda tx: recovery.extend(tx, pairs, worker=worker, until=k.now + LEASE)
            )
        )
        ours = self.model.run("extend", pairs, worker)
        self.same("extend", theirs, ours)
        self.succeeded["extend"] += len(ours) < len(pairs)

    @precondition(lambda self: self.leases)
    @rule(chosen=st.lists(endings, min_size=1, max_size=3))
    def settle(self, chosen: list[dict[str, Any]]) -> None:
        wanted: dict[int, Ending] = {}
        plain: dict[int, dict[str, Any]] = {}
        for each in chosen:
            lease = self.held(each["place"], stale=each["stale"])
            if lease is None:
                continue
            job, fence, worker = lease
            kind, effect = each["kind"], each["effect"]
            more = {
                "due": self.model.now + each["delay"],
                "result": f'"{kind}"' if kind == "done" else None,
                "error": None if kind == "done" else kind,
                "keep": each["keep"],
                "watched": each["watched"],
            }
            ending = Ending(
                *(JobId(job), fence, worker, kind),
                **more,
                effects={None: (), "good": (lambda _tx: None,), "bad": (fails,)}[effect],
            )
            failed = Ending(
                JobId(job), fence, worker, "failed", error="an effect failed", keep=1000
            )
            wanted[job] = ending.but(fallback=lambda _, failed=failed: failed)
            ours = {"id": job, "fence": fence, "worker": worker, "kind": kind, **more}
            simple = kind == "done" and not effect and not each["watched"] and each["keep"] != 0
            plain[job] = {**ours, "broken": effect == "bad", "plain": simple}
        theirs = self.both(
            lambda k: [None if e is None else e.kind for e in k.settle(*wanted.values())]
        )
        ours = self.model.run("settle", list(plain.values()))
        self.same("settle", theirs, ours)
        for kind in ours:
            self.succeeded[f"settle {kind}"] += 1

    @rule(
        crashed=st.booleans(),
        dead=st.sampled_from([(), (), (ME,), (OTHER,)]),
        take_over=st.booleans(),
    )
    def recover(self, *, crashed: bool, dead: tuple[int, ...], take_over: bool) -> None:
        def verb(k: Kernel) -> Any:
            ended = k.recover(crashed=crashed, dead=dead, take_over=take_over)
            return sorted((e.id, e.kind) for e in ended)

        theirs = self.both(verb)
        ours = self.model.run("recover", crashed=crashed, dead=set(dead), take_over=take_over)
        self.same("recover", theirs, ours)
        for _, kind in ours:
            self.succeeded[f"recover {kind}"] += 1

    @precondition(lambda self: self.model.jobs)
    @rule(wanted=st.lists(places, min_size=1, max_size=2))
    def cancel(self, wanted: list[int]) -> None:
        found = self.jobs(wanted)
        theirs = self.both(lambda k: k.cancel(*found, why="not wanted"))
        ours = self.model.run("cancel", found, "not wanted")
        self.same("cancel", theirs, ours)

    @precondition(lambda self: self.model.jobs)
    @rule(wanted=st.lists(places, min_size=1, max_size=2))
    def revive(self, wanted: list[int]) -> None:
        found = self.jobs(wanted)
        theirs = self.both(lambda k: k.revive(*found))
        self.same("revive", theirs, self.model.run("revive", found))

    @precondition(lambda self: self.model.jobs)
    @rule(every=st.booleans())
    def revive_what_ended(self, *, every: bool) -> None:
        """Settled jobs are picked too seldom by chance."""
        settled = [j for j, row in sorted(self.model.jobs.items()) if row["state"] != "open"]
        found = settled if every else settled[-1:]
        theirs = self.both(lambda k: k.revive(*found))
        self.same("revive", theirs, self.model.run("revive", found))

    @rule()
    def prune(self) -> None:
        theirs = self.both(lambda k: k.prune())
        self.same("prune", theirs, self.model.run("prune"))

    @rule(queue=queues, resume=queues)
    def pause(self, queue: str, resume: str | None) -> None:
        """Pause one, and resume one or all, so that most walks get on."""
        theirs = self.both(lambda k: k.run(lambda tx: lanes.pause(tx, queue)))
        self.same("pause", theirs, self.model.run("pause", queue))
        self.all_three_are_equal()
        self.resume(resume)

    @precondition(lambda self: self.model.paused)
    @rule(queue=queues)
    def resume(self, queue: str) -> None:
        theirs = self.both(lambda k: k.run(lambda tx: lanes.resume(tx, queue)))
        self.same("resume", theirs, self.model.run("resume", queue))

    @rule(
        new=st.lists(new_jobs, min_size=1, max_size=3),
        chosen=st.lists(endings, min_size=1, max_size=3),
        by=steps,
    )
    def work(self, new: list[Any], chosen: list[Any], by: int) -> None:
        """What a worker does most of the time; chance alone seldom gets there."""
        self.enqueue(new)
        self.all_three_are_equal()
        self.claim(ME, TASKS, 100, {})
        self.all_three_are_equal()
        self.settle(chosen)
        self.all_three_are_equal()
        self.advance(by)

    @precondition(lambda self: any(r["worker"] for r in self.model.jobs.values()))
    @rule(times=st.sampled_from([1, 5, 5]), crashed=st.sampled_from([True, True, False]))
    def lose_and_claim(self, times: int, *, crashed: bool) -> None:
        """The same jobs are lost and taken again, and the old holder tries to keep them."""
        for _ in range(times):
            self.advance(LEASE)
            self.recover(crashed=crashed, dead=(), take_over=True)
            self.all_three_are_equal()
            self.advance(5000)
            self.claim(ME, TASKS, 100, {})
            self.all_three_are_equal()
        self.advance(1)
        old = {lease[:2] for lease in self.leases if not self.model._ours(*lease)}  # noqa: SLF001
        self.extend_all(sorted(old), ME)

    @precondition(lambda self: any(r["state"] == "failed" for r in self.model.jobs.values()))
    @rule()
    def prune_one_that_is_waited_for(self) -> None:
        """A failed job, one that waits for it, and then its time is over."""
        failed = min(j for j, row in self.model.jobs.items() if row["state"] == "failed")
        new = [NewJob(LaneName("default", "mail"), "[]", self.model.now, after=failed)]
        theirs = self.both(lambda k: [(e.id, e.existed) for e in k.enqueue(*new)])
        self.same("enqueue", theirs, self.model.run("enqueue", new))
        self.all_three_are_equal()
        self.advance(KEEP)
        self.prune()

    @rule(by=steps)
    def advance(self, by: int) -> None:
        self.model.now += by
        for kernel in self.kernels:
            kernel.now = self.model.now
        self.same("advance", None, None)

    # --- what must be the same

    @invariant()
    def all_three_are_equal(self) -> None:
        expected = snapshot_of_model(self.model)
        for kernel in self.kernels:
            found = snapshot(kernel)
            for name, rows in expected.items():
                assert found[name] == rows, f"{name} on {kernel.database.kind}"

    @invariant()
    def of_a_serial_value_one_job_is_on_its_way(self) -> None:
        on_their_way = Counter(
            row["serial"]
            for row in self.model.jobs.values()
            if row["serial"] and row["state"] == "open" and (row["worker"] or row["due"] < FOREVER)
        )
        assert max(on_their_way.values(), default=0) <= 1


def snapshot(kernel: Kernel) -> dict[str, Any]:
    with kernel.reading() as tx:
        return {
            "jobs": [tuple(row) for row in tx.read(JOBS)],
            "attempts": [tuple(row) for row in tx.read(ATTEMPTS)],
            "once": [tuple(row) for row in tx.read(ONCE)],
            "lanes": [tuple(row) for row in tx.read(LANES)],
            "paused": [row[0] for row in tx.read(PAUSED)],
            "batches": [tuple(row) for row in tx.read(BATCHED)],
            # In which order a cascade reacts within one call is not promised.
            "events": sorted((event.job, event.kind) for event in kernel.reacted),
        }


def snapshot_of_model(model: Model) -> dict[str, Any]:
    return {
        "jobs": [
            (job, *row["lane"], *(value for name, value in row.items() if name != "lane"))
            for job, row in sorted(model.jobs.items())
        ],
        "attempts": [(*key, *rest) for key, rest in sorted(model.attempts.items())],
        "once": [(*name, *rest) for name, rest in sorted(model.once.items())],
        "lanes": [(*name, lane["id"], lane["due"]) for name, lane in model.lanes.items()],
        "paused": sorted(model.paused),
        "batches": [
            (batch, *(value for name, value in row.items() if name not in {"key", "keep", "task"}))
            for batch, row in sorted(model.batches.items())
        ],
        "events": sorted(model.events),
    }


@pytest.fixture
def kernels(postgres: Server, postgres_template: str, tmp_path: Path) -> Iterator[list[Kernel]]:
    url = postgres.create_database("model", template=postgres_template)
    # Nothing here is about a power cut, and thousands of commits wait for the disk.
    relaxed = url + "?options=-c%20synchronous_commit%3Doff"
    with Kernel(f"sqlite:///{tmp_path / 'model.db'}") as sqlite, Kernel(relaxed) as pg:
        sqlite.database._write_connection().pragma("synchronous", "off")  # type: ignore[attr-defined]  # noqa: SLF001
        yield [sqlite, pg]
    postgres.drop_database("model")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_both_databases_do_what_the_model_does(kernels: list[Kernel]) -> None:
    succeeded: Counter[str] = Counter()
    seen: set[tuple[str, str | None, str | None]] = set()
    machine = type("Machine", (Walk,), {"kernels": kernels, "succeeded": succeeded, "seen": seen})

    for batch in range(BATCHES):
        walk = seed(SEED * 1000 + batch)(machine)
        run_state_machine_as_test(walk, settings=SETTINGS)  # type: ignore[no-untyped-call]
        if not missing(succeeded) and set(TRANSITIONS) <= seen:
            break

    print(dict(sorted(succeeded.items())))  # noqa: T201 - shown when something is missing
    assert missing(succeeded) == [], "verbs that never succeeded"
    assert seen - set(TRANSITIONS) == set(), "a change that the table does not have"
    assert set(TRANSITIONS) - seen == set(), "rows of the table that never happened"


def missing(succeeded: Counter[str]) -> list[str]:
    verbs = ["enqueue", "claim", "extend", "settle", "recover", "cancel", "revive", "prune"]
    kinds = ["done", "retry", "misfit", "snooze", "failed", "cancelled", "crashed", "lost"]
    kinds += ["released", None]
    wanted = [*verbs, "pause", "resume", "advance", "recover crashed", "recover lost"]
    wanted += [f"settle {kind}" for kind in kinds]
    wanted += ["enqueue refused", "cancel refused", "revive refused", "batch", "retry"]
    return [name for name in wanted if not succeeded[name]]
