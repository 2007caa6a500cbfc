"""The invariants, checked on a live database, read-only.

Everything is looked at in one consistent view, so a database in full use has no violations either. Each
invariant is a statement in `verify.sql` that returns the rows which break it; only checksums need
Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duework.clock import FOREVER
from duework.codec import checksum
from duework.db.database import Tx
from duework.db.queries import load

CHECKS = load("duework.health", "verify")

# Violations are counted up to this.
BOUND = 1000
# How many of them are named.
SAMPLE = 5
# How many of the newest payloads are compared without `full`.
SAMPLED_PAYLOADS = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant, how many rows it was tried on, and which break it."""

    name: str
    says: str
    checked: int
    violations: int
    sample: tuple[str, ...] = ()


# Statement, what it counts against, and the invariant in words.
INVARIANTS = (
    ("state_is_known", "jobs", "a job is open, done, failed or cancelled"),
    ("settled_has_time", "jobs", "a job has a settled time if and only if it is settled"),
    ("worker_only_on_open", "jobs", "only an open job is held by a worker"),
    ("key_is_open_once", "keyed", "a task has at most one open job per key"),
    ("fence_counts_up", "jobs", "a fence is never negative, and 1 or more once claimed"),
    ("lease_ends", "held", "a lease ends some day"),
    ("held_is_not_over", "held", "what is held has not ended by the same fence"),
    ("failures_are_recorded", "jobs", "every failure and crash that counts is an attempt"),
    ("settled_asks_nothing", "jobs", "no run and no cancelling is asked of a settled job"),
    ("attempt_of_job", "attempts", "an attempt belongs to a job"),
    ("attempt_fence", "attempts", "no attempt is newer than its job's fence"),
    ("attempt_outcome", "attempts", "the outcome of an attempt is a known one"),
    ("lane_exists", "jobs", "a job has a lane, of its own task"),
    ("lane_closed_by_pause", "lanes", "a lane is closed if and only if its queue is paused"),
    ("linked_is_set", "open_jobs", "a job that others hang on is marked as linked"),
    ("parked_has_reason", "parked", "a parked job waits for a job that can wake it"),
    ("serial_is_single", "serial_jobs", "one job at a time of each serial value"),
    ("serial_moves", "serial_jobs", "jobs of a serial value do not all wait for each other"),
    ("once_is_single", "once_rows", "a task has at most one `once` row per key"),
    ("lease_has_worker", "held", "a lease belongs to a worker that is registered"),
    ("batch_counts", "batches", "the counters of a batch equal a recount of its members"),
    ("batch_settles", "batches", "a batch is settled, and followed up, when no member is open"),
    ("batch_exists", "members", "a member belongs to a batch"),
    ("chain_key_is_active_once", "chains", "a task has at most one active chain per key"),
    ("chain_pages_are_gapless", "chains", "the pages of a chain are 1, 2, 3 and so on"),
    ("chain_completed_is_a_recount", "chains", "a chain knows how many of its pages are done"),
    ("chain_goes_on", "chains", "an active chain has an open job for its next page"),
    ("chain_has_one_open_job", "open_jobs", "a chain has at most one open job"),
    ("chain_done_is_complete", "chains", "all pages of a chain that is done are done"),
    ("page_of_chain", "pages", "a page belongs to a chain"),
    ("schedule_is_armed", "schedules", "an active schedule has one open job, due when it is"),
    ("schedule_rests", "schedules", "a schedule has a next slot if and only if it is active"),
    ("fire_has_schedule", "schedules", "a job that fires belongs to a schedule"),
    ("slot_is_fired_once", "scheduled", "a slot of a schedule has one job"),
    ("delivery_moves", "channels", "a channel that is being sent has an open job that sends it"),
    ("delivery_was_started", "channels", "a send was committed as started before it was sent"),
    ("message_moves", "messages", "a message that is not settled has a job that moves it"),
    ("message_was_submitted", "messages", "a message that was sent was submitted before"),
    ("message_has_handle", "messages", "a message is sending once its handle is known"),
    ("pace_within_limit", "paces", "a pace admits no more in a window than its limit"),
    ("lane_waits_for_pace", "paced_lanes", "a lane waits for a pace that is there"),
    ("slot_is_promised", "jobs", "a job's slot was promised by one of its claims"),
)


def verify(
    tx: Tx, *, full: bool = False, tell: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """Check every invariant; `full` compares all payloads and lets the database check itself."""
    names = ("jobs", "open_jobs", "held", "keyed", "serial_jobs", "parked", "attempts")
    counts = tx.query(CHECKS.scopes, {"forever": FOREVER})[0]
    more: tuple[str, ...] = ("once_rows", "lanes", "chains", "pages", "batches", "members")
    more += ("schedules", "scheduled", "channels", "messages", "paced_lanes", "paces")
    scopes = dict(zip((*names, *more), counts, strict=True))
    findings = []
    for name, scope, says in INVARIANTS:
        tell(says)
        statement = getattr(CHECKS, name)
        given = {"bound": BOUND, "forever": FOREVER}
        rows = tx.query(statement, {key: given[key] for key in statement.names})
        sample = tuple(str(row[0]) for row in rows[:SAMPLE])
        findings.append(Finding(name, says, scopes[scope], len(rows), sample))
    findings.append(_checksums(tx, None if full else SAMPLED_PAYLOADS, tell))
    if full:
        findings += _database(tx, tell)
    return findings


def _checksums(tx: Tx, limit: int | None, tell: Callable[[str], None]) -> Finding:
    says = "a payload matches its checksum"
    tell(says)
    before, checked = 2**62, 0
    broken: list[str] = []
    while limit is None or checked < limit:
        rows = tx.query(CHECKS.payloads, {"before": before, "bound": BOUND})
        if not rows:
            break
        checked += len(rows)
        before = rows[-1][0]
        broken += [str(row[0]) for row in rows if checksum(row[0], row[1], row[2]) != row[3]]
    return Finding("payload_checksum", says, checked, len(broken), tuple(broken[:SAMPLE]))


def _database(tx: Tx, tell: Callable[[str], None]) -> list[Finding]:
    says = "the database's own check finds nothing"
    tell(says)
    lines = [str(row[0]) for row in tx.query(CHECKS.integrity, {}) if row[0] != "ok"]
    integrity = Finding("integrity", says, 1, len(lines), tuple(lines[:SAMPLE]))
    says = "no row refers to one that is missing"
    tell(says)
    rows = [f"{row[0]}:{row[1]}" for row in tx.query(CHECKS.foreign_keys, {})]
    return [integrity, Finding("foreign_keys", says, 1, len(rows), tuple(rows[:SAMPLE]))]
