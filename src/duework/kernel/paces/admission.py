"""Admission: what the paces of lanes admit, inside the claim's transaction.

The rows of all paces that the visited lanes have are locked once, in the order of their names, and
written once, with what was taken. A lane that is not admitted is due when its pace will admit
again. Where every value of an argument has a pace, lanes know nothing of it: a job that is too early
is handed back with a time of its own, which it keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from duework.clock import FOREVER
from duework.codec import decode, encode
from duework.db.database import Tx
from duework.db.queries import load
from duework.errors import InvalidArguments
from duework.kernel.job import Claimed
from duework.kernel.lanes import Lane
from duework.kernel.paces.pace import AHEAD_MS, Pace, Rate, State

PACES = load("duework.kernel.paces", "paces")

# Longer values of an argument are known by their beginning and a digest.
VALUE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Gate:
    """A pace under the name of its row, as one task or queue has it."""

    name: str
    pace: Pace
    # What an argument that was not given is.
    default: Any = None

    def of(self, share: str) -> str:
        """The name of the row for a lane: its own where every share has one."""
        return self._valued(share) if self.pace.by_lane else self.name

    def row(self, payload: str, share: str = "") -> str:
        """The name of the row for a job: its own where every value has one."""
        if self.pace.per is None:
            return self.of(share)
        try:
            value = decode(payload).get(self.pace.per, self.default)
        except (InvalidArguments, AttributeError):
            # A damaged payload: its attempt will say so.
            value = None
        return self._valued(value if isinstance(value, str) else encode(value))

    def _valued(self, text: str) -> str:
        if len(text) > VALUE_LIMIT:
            text = f"{text[:VALUE_LIMIT]}~{_digest(text)}"
        return f"{self.name}[{text}]"


def _digest(text: str) -> str:
    import hashlib

    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


Gates = Mapping[str, tuple[Gate, ...]]


@dataclass(frozen=True, slots=True)
class AddressedReport:
    """Something a pace is to apply: how a job went, what an upstream said."""

    row: str
    pace: Pace
    word: str
    value: Any = 0


class _Row:
    """A pace's state while its row is locked."""

    __slots__ = ("changed", "pace", "state", "taken")

    def __init__(self, pace: Pace, state: State, *, changed: bool = False) -> None:
        self.pace = pace
        self.state = state
        self.changed = changed
        # Whether something was taken, and not only a report applied.
        self.taken = False


class Admission:
    """The paces of the lanes that one claim visits."""

    def __init__(
        self,
        tx: Tx,
        lanes: Sequence[Lane],
        paces: tuple[Gates, Gates],
        reports: Sequence[AddressedReport],
        now: int,
    ) -> None:
        self._tx = tx
        self._now = now
        # Rows of values are locked last, by every transaction; their reports wait until then.
        self._later = [report for report in reports if report.pace.per is not None]
        self._earlier: dict[str, int] = {}
        # Lane to its gates; most lanes have none.
        self._gates: dict[int, tuple[Gate, ...]] = {}
        self._values: dict[str, tuple[Gate, ...]] = {}
        self._rows: dict[str, _Row] = {}
        self._visited: dict[int, Lane] = {}
        self._short: set[int] = set()
        if reports or any(paces):
            self._find(lanes, *paces, [report for report in reports if report.pace.per is None])

    def _find(
        self, lanes: Sequence[Lane], tasks: Gates, queues: Gates, reports: Sequence[AddressedReport]
    ) -> None:
        paces = {report.row: report.pace for report in reports}
        for lane in lanes:
            found = tasks.get(lane.name.task, ()) + queues.get(lane.name.queue, ())
            plain = tuple(gate for gate in found if gate.pace.per is None)
            if len(plain) < len(found):
                self._values[lane.name.task] = tuple(g for g in found if g.pace.per is not None)
            if plain:
                self._gates[lane.id] = plain
                self._visited[lane.id] = lane
                paces.update((gate.of(lane.name.share), gate.pace) for gate in plain)
        if paces:
            self._rows = locked(self._tx, paces, self._now)
            self._earlier = _applied(self._rows, reports, self._now)
            for row in self._rows.values():
                row.pace.bring_up(row.state, self._now)

    def left(self, lane: Lane) -> int:
        """How many jobs of the lane are admitted now."""
        return self._left(self._gates_of(lane))

    def left_in_common(self, lane: Lane) -> int:
        """The same by what it shares with other lanes."""
        return self._left([found for found in self._gates_of(lane) if not found[0].pace.by_lane])

    def _left(self, gates: Sequence[tuple[Gate, _Row]]) -> int:
        left = FOREVER
        for gate, row in gates:
            left = min(left, row.pace.left(row.state, self._now) // gate.pace.units)
        return left

    def _gates_of(self, lane: Lane) -> list[tuple[Gate, _Row]]:
        gates = self._gates.get(lane.id, ())
        return [(gate, self._rows[gate.of(lane.name.share)]) for gate in gates]

    def last_turn(self, lane: Lane, turn: str) -> int | None:
        """Of lanes that take turns, the one that was served last; None if no pace knows."""
        for gate, row in self._gates_of(lane):
            if not gate.pace.by_lane:
                return int(row.state.get("turns", {}).get(turn, 0))
        return None

    def note_turn(self, lane: Lane, turn: str, last: int) -> None:
        """That one was served last; it is saved with what was taken."""
        for gate, row in self._gates_of(lane):
            if not gate.pace.by_lane:
                row.state["turns"] = {**row.state.get("turns", {}), turn: last}
                return

    def bound(self, lane: Lane) -> int:
        """Only jobs that were due by then are admitted."""
        states = [row for _, row in self._gates_of(lane)]
        return min([row.pace.bound(row.state, self._now) for row in states], default=self._now)

    def take(self, lane: Lane, count: int, *, short: bool) -> int:
        """So many were claimed, of fewer than there was room for if `short`; until when they start."""
        start_by = FOREVER
        for gate, row in self._gates_of(lane) if count else ():
            row.pace.take(row.state, self._now, count * gate.pace.units)
            row.changed = row.taken = True
            start_by = min(start_by, row.pace.start_by(row.state, self._now))
        if short:
            self._short.add(lane.id)
        return start_by

    def keep(self, taken: list[Claimed]) -> list[Claimed]:
        """Of what was claimed, what may start; the rest is handed back, each with its own time."""
        paced = [job for job in taken if job.task in self._values] if self._values else []
        if not paced and not self._later:
            return taken
        wanted = {report.row: report.pace for report in self._later}
        rows_of: dict[int, list[str]] = {}
        for job in paced:
            for gate in self._values[job.task]:
                name = gate.row(job.payload)
                wanted[name] = gate.pace
                rows_of[job.id] = [*rows_of.get(job.id, ()), name]
        rows = locked(self._tx, wanted, self._now)
        _applied(rows, self._later, self._now)
        back: dict[int, int] = {}
        for job in paced:
            slot = max(self._slot(rows[name], job) for name in rows_of[job.id])
            if slot > self._now:
                back[job.id] = slot
        self._hand_back([job for job in paced if job.id in back], back)
        save(self._tx, rows, self._now)
        return [job for job in taken if job.id not in back]

    def _slot(self, row: _Row, job: Claimed) -> int:
        """When it may start by this pace; the time that it was promised if it has come for that."""
        pace = row.pace
        assert isinstance(pace, Rate), "only rates have values"
        promised = job.slot_fence is not None and job.fence == job.slot_fence + 1
        if promised and job.slot is not None and pace.keeps(row.state, self._now, job.slot):
            return job.slot
        row.changed = True
        return pace.promise(row.state, self._now)

    def _hand_back(self, jobs: Sequence[Claimed], slots: Mapping[int, int]) -> None:
        if jobs:
            rows = [(slots[job.id], job.fence, job.id) for job in sorted(jobs, key=_by_id)]
            self._tx.bulk(PACES.promise, rows)
        for job in jobs:
            for gate in self._gates.get(job.lane, ()):
                row = self._rows[gate.of(job.share)]
                row.pace.take(row.state, self._now, -gate.pace.units)

    def close(self) -> bool:
        """Write what was taken, and when lanes may be visited again; whether any was moved."""
        if not self._rows:
            return False
        save(self._tx, self._rows, self._now)
        _advance(self._tx, self._earlier)
        waits = [
            (due, name, lane, FOREVER)
            for lane in sorted(self._visited)
            for due, name in [self._waits(self._visited[lane])]
            if due > self._now
        ]
        if waits:
            self._tx.bulk(PACES.lane_waits, waits)
        return bool(waits or self._earlier)

    @property
    def earlier(self) -> bool:
        """Whether a report lets lanes be due earlier, also those not visited."""
        return bool(self._earlier)

    def _waits(self, lane: Lane) -> tuple[int, str]:
        """When the lane is admitted again, and what it waits for; 0 if it need not wait."""
        found = [(0, "")]
        now = self._now
        for gate, row in self._gates_of(lane):
            # What comes due after a tick waits for the next one, however much is left of this.
            ticked = lane.id in self._short and row.pace.kind in {"tick", "adaptive"}
            if row.pace.left(row.state, now) < gate.pace.units or (ticked and row.state["used"]):
                found.append((gate.pace.again(row.state, now), gate.of(lane.name.share)))
        return max(found)


@dataclass(frozen=True, slots=True)
class PaceRules:
    """The paces that tasks and queues have in this process; what a claim asks."""

    tasks: Gates
    queues: Gates

    def visit(
        self, tx: Tx, lanes: Sequence[Lane], reports: Sequence[AddressedReport], now: int
    ) -> Admission:
        return Admission(tx, lanes, (self.tasks, self.queues), reports, now)


def _by_id(job: Claimed) -> int:
    return job.id


def locked(tx: Tx, paces: Mapping[str, Pace], now: int) -> dict[str, _Row]:
    """The rows by name, under lock; made where they are missing."""
    names = sorted(paces)
    found = {row[0]: row[1:] for row in tx.query(PACES.lock_paces, {"names": names})}
    if missing := [name for name in names if name not in found]:
        tx.bulk(PACES.new_pace, [(name, paces[name].kind, now) for name in missing])
        found |= {row[0]: row[1:] for row in tx.query(PACES.lock_paces, {"names": missing})}
    return {name: _row(name, paces[name], *found[name], now=now) for name in names}


def _row(name: str, pace: Pace, text: str, changed: int, *, now: int) -> _Row:
    state, ahead = _loaded(pace, name, text), changed - now
    if ahead <= AHEAD_MS:
        return _Row(pace, state)
    pace.back(state, now, ahead)
    # The next claim must not bring it back once more.
    return _Row(pace, state, changed=True)


def stored(text: str) -> State:
    """The state of a row; one that was damaged is as good as none, and stops no claim."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError):
        return {}


def _loaded(pace: Pace, name: str, text: str) -> State:
    state = stored(text)
    if pace.per is not None and isinstance(pace, Rate) and name.endswith("]"):
        return {**pace.fresh_value(), **state}
    return pace.load(state)


def save(tx: Tx, rows: Mapping[str, _Row], now: int) -> None:
    changed = [_values(name, row, now) for name, row in sorted(rows.items()) if row.changed]
    if changed:
        tx.bulk(PACES.save_pace, changed)


def _values(name: str, row: _Row, now: int) -> tuple[Any, ...]:
    pace, state = row.pace, row.state
    idle: int | None = None
    if isinstance(pace, Rate) and "next" in state:
        used, most, idle = 0, 0, pace.idle_at(state)
    else:
        used, most = state["used"], pace.most(state)
        if not row.taken:
            # An upstream may have reported more than that, or the limit is a lower one by now.
            most = max(most, used)
        if pace.by_lane:
            idle = pace.over(state)
    return (encode(state), used, most, state["blocked"], idle, now, name)


def _applied(
    rows: Mapping[str, _Row], reports: Iterable[AddressedReport], now: int
) -> dict[str, int]:
    """Let paces apply their reports; those that admit earlier than was thought, and when."""
    earlier: dict[str, int] = {}
    for report in reports:
        row = rows[report.row]
        row.changed = True
        if row.pace.apply(row.state, now, report.word, report.value):
            again = row.pace.again(row.state, now)
            earlier[report.row] = 0 if row.pace.kind == "quota" else again
    return earlier


def _advance(tx: Tx, earlier: Mapping[str, int]) -> None:
    for name, due in sorted(earlier.items()):
        tx.query(PACES.lanes_earlier, {"pace": name, "due": due, "forever": FOREVER})


def apply_reports(tx: Tx, reports: Sequence[AddressedReport], *, now: int) -> bool:
    """Let paces apply what happened; whether lanes are due earlier for it."""
    rows = locked(tx, {report.row: report.pace for report in reports}, now)
    earlier = _applied(rows, reports, now)
    save(tx, rows, now)
    _advance(tx, earlier)
    return bool(earlier)


def bring_back(
    tx: Tx, lanes: Sequence[Lane], paces: tuple[Gates, Gates], *, stepped: bool, now: int
) -> bool:
    """Undo what paces have put off by a clock that has been set back since; whether anything was.

    Lanes that wait just look again. A time that was promised to a job says nothing by itself: others may
    come before it. So promises are taken back if the clock was seen to step, or values show that it had.
    """
    gates = _gates_of_values(lanes, paces)
    moved = 0
    if gates:
        ahead = dict(tx.query(PACES.values_ahead, {"now": now}))
        if stepped or any(changed - now > AHEAD_MS for changed in ahead.values()):
            moved += tx.change(PACES.unpromise, {"lanes": sorted(gates), "now": now})
            declared = {gate.name: gate.pace for found in gates.values() for gate in found}
            found = {name: declared.get(name.partition("[")[0]) for name in ahead}
            rows = locked(tx, {name: pace for name, pace in found.items() if pace}, now)
            for row in rows.values():
                assert isinstance(row.pace, Rate), "only rates have values"
                row.pace.empty(row.state, now)
                row.changed = True
            save(tx, rows, now)
    moved += tx.change(PACES.lanes_again, {"now": now, "forever": FOREVER})
    return bool(moved)


def _gates_of_values(
    lanes: Sequence[Lane], paces: tuple[Gates, Gates]
) -> dict[int, tuple[Gate, ...]]:
    """Lanes whose jobs are promised times, and by what."""
    tasks, queues = paces
    found = {
        lane.id: tasks.get(lane.name.task, ()) + queues.get(lane.name.queue, ()) for lane in lanes
    }
    values = {
        lane: tuple(gate for gate in gates if gate.pace.per is not None)
        for lane, gates in found.items()
    }
    return {lane: gates for lane, gates in values.items() if gates}


def forget(tx: Tx, *, now: int, chunk: int) -> int:
    """Drop a chunk of the rows of values that have been quiet for long enough; how many."""
    return len(tx.query(PACES.forget_paces, {"now": now, "wanted": chunk}))
