"""The invariants of shapes: what must hold however workers and clients died, paused or were terminated.

`check` returns one line for each violation, with the number of the invariant as in `check.py`: I9 a slot
is fired once, and none is left out · I11 a message is sent under one key, once where keys are honoured,
and never if its transaction was rolled back · I12 calls of an object are serial, in the order of real
time, and none is lost · I14 pages follow each other without a gap or a repetition · I15 counters equal a
recount, a follow-up comes once and last, a rate is not exceeded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from proof.check import SAMPLE, sampled
from proof.shapehistory import Channelled, Posted, Shapes
from proof.shapework import PERIOD_MS, RATE, SCHEDULES, summed

# A start so soon after its process went on may have been admitted before it stood still.
AWAKE_MS = 100
# Of a keyed channel that was sent again as often as it may be.
NOBODY = "nobody can tell"


def check(seen: Shapes, sample: int = SAMPLE) -> list[str]:
    """Every violation, a few of each kind."""
    checks = (
        *(_slots, _batches, _members, _pages, _chains, _active, _channels, _posts, _rate),
        *(_objects, _inside, _visits, _alarms),
    )
    return [line for each in checks for line in sampled(list(each(seen)), sample)]


def in_the_middle(seen: Shapes) -> list[str]:
    """Those that hold at any time, not only when all work has ended."""
    return [line for each in (_pages, _inside) for line in each(seen)]


def _twice(items: list[int]) -> list[int]:
    return [item for item, count in Counter(items).items() if count > 1]


def _slots(seen: Shapes) -> Iterator[str]:
    """I9, by an oracle of its own: these rules are a start and a distance."""
    for key, (_, distance) in SCHEDULES.items():
        kind, start, made, last = seen.schedules[key]
        origin = start if kind == "every" else 0
        first = origin + ((made - origin) // distance + 1) * distance
        wanted = set(range(first, last + 1, distance)) if last is not None else set()
        slots = [fired.slot for fired in seen.fired if fired.schedule == key]
        for slot in _twice(slots):
            yield f"I9 slot {slot} of {key} was fired {slots.count(slot)} times"
        for slot in sorted(wanted - set(slots)):
            yield f"I9 slot {slot} of {key} was never fired"
        for slot in sorted(set(slots) - wanted):
            yield f"I9 {slot} is no slot of {key}, and was fired"
    traces = Counter(seen.ticks)
    for fired in seen.fired:
        left = traces[fired.schedule, fired.slot, fired.job]
        if left != int(fired.state == "done"):
            yield f"I9 slot {fired.slot} of {fired.schedule} is {fired.state} with {left} effects"


def _batches(seen: Shapes) -> Iterator[str]:
    states: dict[int, Counter[str]] = defaultdict(Counter)
    last: dict[int, int] = defaultdict(int)
    for job, number, state in seen.members:
        states[number][state] += 1
        last[number] = max(last[number], seen.ended.get(job, 0))
    follows: dict[int, list[int]] = defaultdict(list)
    for job, number, _ in seen.closings:
        follows[number].append(job)
    for batch in seen.batches:
        counted = {"done": batch.done, "failed": batch.failed, "cancelled": batch.cancelled}
        found = states[batch.id]
        if batch.gone or counted != {name: found[name] for name in counted}:
            yield f"I15 batch {batch.id} counts {counted} of {dict(found)}"
        if batch.settled is None or found.total() != batch.total:
            yield f"I15 batch {batch.id} of {batch.total} has {found.total()} members, or no end"
        if follows[batch.id] != [batch.then_job]:
            yield f"I15 batch {batch.id} has {len(follows[batch.id])} follow-ups"
        elif seen.born.get(batch.then_job, 0) < last[batch.id]:
            yield f"I15 batch {batch.id} was followed up before its last member had ended"


def _members(seen: Shapes) -> Iterator[str]:
    """I15: batches are there; what members and follow-ups leave is left once, by those that are done."""
    totals = {batch.id: batch.total for batch in seen.batches}
    for op in seen.acknowledged("batch"):
        if op["id"] not in totals:
            yield f"I15 batch {op['id']} was acknowledged and is not there"
    for number, _, ended in seen.close_traces:
        if ended != totals[number]:
            yield f"I15 batch {number} was followed up when {ended} members had ended"
    left = Counter([job for _, job in seen.member_traces])
    left.update(job for _, job, _ in seen.close_traces)
    for job, number, state in [*seen.members, *seen.closings]:
        if left[job] != int(state == "done"):
            yield f"I15 job {job} of batch {number} is {state} and has {left[job]} effects"


def _pages(seen: Shapes) -> Iterator[str]:
    """I14: each from where the one before ended, and numbered so."""
    before: dict[int, tuple[int, int]] = {}
    for chain, number, low, high in seen.page_traces:
        last, at = before.get(chain, (0, 0))
        if number != last + 1 or low != at + 1:
            yield f"I14 chain {chain}: page {number} of {low} to {high} after page {last} to {at}"
        before[chain] = (number, high)


def _chains(seen: Shapes) -> Iterator[str]:
    """I14: what is counted is what was done, and one that is done is whole."""
    pages: dict[int, list[int]] = defaultdict(list)
    for chain, _, _, high in seen.page_traces:
        pages[chain].append(high)
    ends = Counter(seen.walk_traces)
    done = Counter(chain for chain, _, state in seen.pages if state == "done")
    for walk in seen.walks:
        count, whole = len(pages[walk.id]), walk.state == "done"
        at = max(pages[walk.id], default=0)
        kept = (walk.completed, done[walk.id], walk.items)
        if kept != (count, count, at):
            yield f"I14 chain {walk.id} counts {kept} and has {count} pages to {at}"
        if walk.state == "active" or (whole and at != walk.last):
            yield f"I14 chain {walk.id} is {walk.state} at {at} of {walk.last}"
        if ends[walk.id, walk.items] != int(whole):
            yield f"I14 chain {walk.id} is {walk.state} and has another end"


def _active(seen: Shapes) -> Iterator[str]:
    """I14: chains are there, and one of a key is active at a time."""
    there = {walk.id for walk in seen.walks}
    for op in seen.acknowledged("chain"):
        if op["id"] not in there:
            yield f"I14 chain {op['id']} was acknowledged and is not there"
    holder: dict[str, int] = {}
    for chain, key, state in seen.turns:
        if state == "active" and holder.setdefault(key, chain) != chain:
            yield f"I14 chains {holder[key]} and {chain} were active with key {key}"
        if state != "active" and holder.get(key) == chain:
            del holder[key]


def _channels(seen: Shapes) -> Iterator[str]:
    chosen = Counter(job for job, _ in seen.choices)
    of_job: dict[int, set[str]] = defaultdict(set)
    for row in seen.channels:
        of_job[row.job].add(row.channel)
        yield from _sent(seen, row, row.channel, honoured=row.channel == "keyed")
        if row.state == "sending":
            yield f"I11 {row.channel} of {row.job} has no outcome; started: {row.send_started}"
    for job, state in seen.notified:
        # One that was given up as poison before its body ended has chosen nothing.
        if chosen[job] != 1 and not (state == "failed" and not of_job[job]):
            yield f"I11 the body of delivery {job} has chosen {chosen[job]} times"
        if chosen[job] and of_job[job] != {"keyed", "blind"}:
            yield f"I11 delivery {job} chose two channels and has {sorted(of_job[job])}"
    there = {job for job, _ in seen.notified}
    for op in seen.acknowledged("notify"):
        if op["id"] not in there:
            yield f"I11 delivery {op['id']} was acknowledged and is not there"


def _posts(seen: Shapes) -> Iterator[str]:
    there = {row.id for row in seen.posts}
    for row in seen.posts:
        yield from _sent(seen, row, row.outbox, honoured=row.outbox == "mail")
        if row.state not in {"sent", "failed", "unsure"}:
            yield f"I11 message {row.id} of {row.outbox} has no outcome and is {row.state}"
    for op in seen.acknowledged("mail", "slip"):
        if op["id"] not in there:
            yield f"I11 message {op['id']} was acknowledged and is not there"
    undone = {op["n"] for op in seen.ops if op["shape"] == "undone"}
    told = {n for _, n in seen.upstream} | {row.n for row in seen.posts}
    for n in sorted(undone & told):
        yield f"I11 message n {n} was rolled back, and is there or was sent"


def _sent(seen: Shapes, row: Channelled | Posted, box: str, *, honoured: bool) -> Iterator[str]:
    """I11 of one message, by what the twin upstream was told and what we say became of it."""
    told = seen.upstream.get((box, row.n), [])
    keys = {key for what, key in told if what in {"asked", "took"}}
    taken = [key for what, key in told if what == "took"]
    # Under a key that is honoured the second one counts for nothing.
    effective = len(set(taken)) if honoured else len(taken)
    name = f"message n {row.n} of {box}"
    if keys - {row.key, "-"}:
        yield f"I11 {name} was sent under {sorted(keys)}, not only under {row.key}"
    if effective > 1:
        yield f"I11 {name} was sent {effective} times"
    if row.state == "sent" and not taken:
        yield f"I11 {name} is sent, and nobody has taken it"
    if row.state == "failed" and row.mood != "refused" and not (row.error or "").count(NOBODY):
        yield f"I11 {name} would have been taken and is failed: {row.error}"
    # One that is refused for good after a submit whose outcome nobody knows may have been taken by that.
    if row.state == "unsure" and honoured and row.mood != "refused":
        yield f"I11 {name} is unsure, and its key is honoured: {row.error}"


def late(seen: Shapes) -> set[int]:
    """Starts, by their place, that may count elsewhere: late twice, or of a process just woken."""
    handed_back: dict[int, int] = {}
    for job, fence in seen.unstarted:
        handed_back[job] = min(fence, handed_back.get(job, fence))
    woken: dict[int, list[int]] = defaultdict(list)
    for pid, when in seen.woken:
        woken[pid].append(when)
    return {
        place
        for place, start in enumerate(seen.starts)
        if handed_back.get(start.job, start.fence) < start.fence
        or any(0 <= start.now - when <= AWAKE_MS for when in woken[start.pid])
    }


def periods(seen: Shapes) -> Counter[int]:
    """Starts in each period of the clock, but for those that may be late."""
    excused = late(seen)
    starts = enumerate(seen.starts)
    return Counter(start.now // PERIOD_MS for place, start in starts if place not in excused)


def _rate(seen: Shapes) -> Iterator[str]:
    """I15: "never above itself in a period of the clock, measured when tasks start"."""
    for period, count in sorted(periods(seen).items()):
        if count > RATE:
            yield f"I15 {count} jobs of a rate of {RATE} were started in period {period}"


def _objects(seen: Shapes) -> Iterator[str]:
    """I12. Every call is of one object, and what holds of each holds of all: no cycles to look for."""
    asked = {f"n {op['n']}" for op in seen.ops if op["shape"] == "add"}
    for key, log in seen.logs.items():
        if log is None:
            yield f"I12 object {key} cannot be read"
            continue
        values = [value for what, value in log if what == "add"]
        if len(set(values)) < len(values):
            yield f"I12 object {key} has {len(values) - len(set(values))} values twice"
        for value in set(values) - asked:
            if value.startswith("n "):
                yield f"I12 nobody has added {value} to {key}"
        ops = [op for op in seen.acknowledged("add") if op["key"] == key]
        yield from _added(key, values, ops)


def _added(key: str, values: list[str], ops: list[dict[str, Any]]) -> Iterator[str]:
    """What callers were told is a beginning of the list; who began later comes later."""
    place = {value: number for number, value in enumerate(values, 1)}
    for op in ops:
        length, total = op["answer"]
        if op["value"] not in place:
            yield f"I12 {op['value']} was added to {key}, acknowledged, and is not there"
        elif place[op["value"]] != length or summed(values[:length]) != (length, total):
            yield f"I12 {op['value']} was added to {key} as a list that there never was"
    newest, ended = 0, sorted(ops, key=lambda op: -int(op["ended"]))
    for op in sorted(ops, key=lambda op: int(op["begun"])):
        while ended and ended[-1]["ended"] < op["begun"]:
            newest = max(newest, place.get(ended.pop()["value"], 0))
        if place.get(op["value"], newest + 1) <= newest:
            yield f"I12 {op['value']} of {key} began after one that comes later had ended"


def _inside(seen: Shapes) -> Iterator[str]:
    """I12: async methods one at a time; one that lost its lease must not leave after another came."""
    for key, log in seen.logs.items():
        inside = ""
        for what, value in log or []:
            if what == "enter":
                inside = value
            elif what == "leave" and inside != value:
                yield f"I12 {value} of {key} wrote while {inside or 'nobody'} was inside"


def _visits(seen: Shapes) -> Iterator[str]:
    """I12: whoever was told that a call was done finds it there."""
    logs = [each for log in seen.logs.values() for each in log or []]
    there = {value for what, value in logs if what in {"add", "leave"}}
    told = [str(note["value"]) for note in seen.called]
    for value in [*told, *(f"n {op['n']}" for op in seen.acknowledged("visit"))]:
        if value not in there:
            yield f"I12 {value} was told that it was done, and is not there"


def _alarms(seen: Shapes) -> Iterator[str]:
    """I12: what a call sets off and what it stores are one: alarms ring, jobs are there once."""
    wanted: Counter[str] = Counter()
    for key, log in seen.logs.items():
        wanted.update(value for what, value in log or [] if what == "set")
        set_at = [place for place, (what, _) in enumerate(log or []) if what == "set"]
        rang = [p for p, (what, v) in enumerate(log or []) if what == "leave" and "alarm" in v]
        if set_at and (not rang or rang[-1] < set_at[-1]):
            yield f"I12 the alarm of {key} was set and has not rung"
    if wanted != Counter(value for value, _ in seen.receipts):
        yield f"I12 {wanted.total()} jobs were asked for by objects, {len(seen.receipts)} are there"
    done = Counter(value for value, state in seen.receipts if state == "done")
    if done != Counter(seen.receipt_traces):
        yield "I12 what jobs of objects left is not what they were"
