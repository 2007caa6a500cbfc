"""The kernel again, in plain dicts: slow, without lanes' cleverness, easy to believe.

Every verb mirrors one of `duework.kernel`, takes the time from `now` and works on dicts only. A
refused verb changes nothing. `seen` collects every (verb, from, to) that happened to a row.
"""

from __future__ import annotations

import copy
from typing import Any

from msgspec import structs

from duework.clock import FOREVER
from duework.kernel.claim import EXPIRED, EXPIRED_AFTER_FAILING
from duework.kernel.job import DAY, KEEP, POISON, SUSPECTS, LaneName, NewJob

Row = dict[str, Any]
SECOND = 1000
COLUMNS = (
    *("lane", "task", "key", "state", "due", "at", "fence", "worker", "failures", "crashes"),
    *(
        "payload",
        "result",
        "error",
        "expires",
        "serial",
        "after",
        "again",
        "cancel_reason",
        "settled",
    ),
)


class Refused(Exception):
    """The verb is not allowed here; its name is that of the kernel's error."""


class Model:
    def __init__(self, now: int, lease: int) -> None:
        self.now, self.lease, self.last = now, lease, 0
        self.jobs: dict[int, Row] = {}
        self.attempts: dict[tuple[int, int], tuple[Any, ...]] = {}
        self.once: dict[tuple[str, str], tuple[int, int]] = {}
        self.lanes: dict[tuple[str, str, int, int], Row] = {}
        self.paused: set[str] = set()
        self.batches: dict[int, Row] = {}
        # Members' batches, how they were when last counted, and how those ended whose rows were
        # deleted at once.
        self.members: dict[int, int] = {}
        self.counted: dict[int, str | None] = {}
        self.ends: dict[int, str] = {}
        self.events: list[tuple[int, str]] = []
        self.seen: set[tuple[str, str | None, str | None]] = set()

    def run(self, verb: str, *args: Any, **more: Any) -> Any:
        """Call a verb; a refusal undoes it."""
        last, before = self.last, copy.deepcopy(self.__dict__)
        try:
            answer = getattr(self, verb)(*args, **more)
        except Refused as refusal:
            self.__dict__.update(before)
            self.last = last
            return f"refused: {refusal}"
        was: dict[int, Row] = before["jobs"]
        self._count()
        if verb == "prune":
            answer = max(answer, self._prune_batches())
        for job in was.keys() | self.jobs.keys():
            old, new = was.get(job), self.jobs.get(job)
            if old != new:
                states = (old and old["state"], new and new["state"])
                self.seen.add((self._blame(verb, old, new), *states))
        return answer

    @staticmethod
    def _blame(verb: str, old: Row | None, new: Row | None) -> str:
        """Which of the table's verbs changed the row, where one verb contains others."""
        if old is None:
            return "enqueue"
        if verb == "retry":
            return "revive"
        if verb == "claim" and new is not None and new["state"] in {"cancelled", "failed"}:
            return "settle" if old is not None and old["fence"] < new["fence"] else "cancel"
        if verb in {"settle", "recover", "claim"} and new and old and old["worker"] is None:
            # Released, or cancelled with the job that it waited for.
            return "claim" if verb == "claim" else "cancel" if new["state"] != "open" else "settle"
        return "settle" if verb == "recover" else verb

    # --- enqueue

    def enqueue(self, new: list[NewJob]) -> list[tuple[int, bool]]:
        names = {(n.lane.queue, n.lane.task, n.lane.priority, 0) for n in new}
        for name in sorted(names):
            self._lane(name)
        ids = list(range(self.last + 1, self.last + len(new) + 1))
        self.last += len(new)
        answers: dict[int, tuple[int, bool]] = {}
        # Keyed ones last, by their key; which is first matters to those that name the same job.
        keys = {n: (job.key is not None, job.key or "", n) for n, job in enumerate(new)}
        for place in sorted(keys, key=keys.__getitem__):
            answers[place] = self._enqueue(new[place], ids[place])
        for serial in {n.serial for n in new if n.serial}:
            self._wake(serial)
        return [answers[place] for place in range(len(new))]

    def _enqueue(self, new: NewJob, drawn: int) -> tuple[int, bool]:
        lane = (new.lane.queue, new.lane.task, new.lane.priority, 0)
        task, name = new.lane.task, (new.lane.task, new.key or "")
        if new.once_until is not None:
            if name in self.once and self.once[name][1] > self.now:
                return self.once[name][0], True
            self.once[name] = (drawn, new.once_until)
        due = self._first_due(new)
        if (job := self._holder(task, new.key)) is not None:
            row = self.jobs[job]
            if new.once_until is not None:
                self.once[name] = (job, self.once[name][1])
            if row["worker"] is None and new.replace:
                row |= {"lane": lane, "payload": new.payload}
                row |= {"at": new.at, "expires": new.expires}
                row["due"] = FOREVER if row["due"] == FOREVER else new.at
            elif row["worker"] is not None and new.again:
                row |= {"again": new.payload, "expires": new.expires}
            return job, True
        self.jobs[drawn] = dict.fromkeys(COLUMNS) | {
            "lane": lane,
            "task": task,
            "key": new.key,
            "state": "open",
            "due": due,
            "at": new.at,
            "payload": new.payload,
            "expires": new.expires,
            "serial": new.serial,
            "after": new.after,
            "fence": 0,
            "failures": 0,
            "crashes": 0,
        }
        return drawn, False

    def _first_due(self, new: NewJob) -> int:
        if new.after is not None:
            if new.after not in self.jobs:
                raise Refused("NotFound")
            if self.jobs[new.after]["state"] == "cancelled":
                raise Refused("Conflict")
            if self.jobs[new.after]["state"] != "done":
                return FOREVER
        return new.at if new.serial is None else FOREVER

    def _holder(self, task: str, key: str | None) -> int | None:
        """The open job that has the key."""
        for job, row in self.jobs.items():
            if key is not None and (row["task"], row["key"], row["state"]) == (task, key, "open"):
                return job
        return None

    def _lane(self, name: tuple[str, str, int, int]) -> None:
        if name not in self.lanes:
            paused = bool(self.paused & {name[0], "*"})
            self.lanes[name] = {"id": len(self.lanes) + 1, "due": FOREVER if paused else 0}

    # --- batches

    def batch(self, new: NewJob, size: int, then: str, key: str | None, keep: int | None) -> Any:
        batch, follow = self.last + 1, self.last + 2
        self.last += 2
        for other, row in self.batches.items():
            if key is not None and row["key"] == key:
                self._lane(("default", then, 0, 0))
                return other, True
        self._lane(("default", then, 0, 0))
        self.batches[batch] = {"total": size, "done": 0, "failed": 0, "cancelled": 0, "gone": 0}
        self.batches[batch] |= {"settled": None, "due": FOREVER, "fired": 0, "then": follow}
        self.batches[batch] |= {"key": key, "keep": keep, "task": then}
        if size:
            jobs = [structs.replace(new, payload=f"[{n}]") for n in range(size)]
            for job, _ in self.enqueue(jobs):
                self.members[job] = batch
                self.counted[job] = "open"
        return batch, False

    def retry(self, batch: int, *, then: bool) -> int:
        if batch not in self.batches:
            raise Refused("NotFound")
        failed = [j for j, b in self.members.items() if b == batch and j in self.jobs]
        failed = [j for j in sorted(failed) if self.jobs[j]["state"] == "failed"]
        self.revive(failed)
        if then and failed:
            self.last += 1
            self.batches[batch] |= {"fired": 0, "then": self.last}
        return len(failed)

    def _count(self) -> None:
        """Compare every member with what it was, and follow up on what is complete now."""
        for job, batch in sorted(self.members.items()):
            row = self.batches.get(batch, {})
            old = self.counted[job]
            new = self.jobs[job]["state"] if job in self.jobs else None
            self.counted[job] = new
            if old == "open" and new != "open":
                row[new or self.ends[job]] += 1
            if old not in {"open", None} and new == "open":
                row[old] -= 1
            if old is not None and new is None:
                row["gone"] += 1
        for row in self.batches.values():
            complete = row["done"] + row["failed"] + row["cancelled"] == row["total"]
            if not complete:
                row |= {"settled": None, "due": FOREVER}
            elif row["settled"] is None:
                row["settled"] = self.now
                row["due"] = FOREVER if row["keep"] is None else self.now + row["keep"]
                if not row["fired"]:
                    self._enqueue(
                        NewJob(LaneName("default", row["task"]), "{}", self.now), row["then"]
                    )
                row["fired"] = 1

    def _prune_batches(self) -> int:
        over = [b for b, row in self.batches.items() if row["due"] <= self.now]
        for batch in over:
            if self.batches[batch]["gone"] == self.batches[batch]["total"]:
                del self.batches[batch]
            else:
                self.batches[batch]["due"] = self.now + DAY
        return len(over)

    # --- claim, extend, recover

    def claim(self, worker: int, tasks: set[str], free: int, limits: dict[str, int]) -> Any:
        taken, alone, full, short = [], SUSPECTS, False, set()
        room = {
            task: limit
            - sum(1 for row in self.jobs.values() if row["worker"] and row["task"] == task)
            for task, limit in limits.items()
        }
        ready = {n: (-n[2], -n[3], self._head(n), self.lanes[n]["id"]) for n in self._ready(tasks)}
        for name in sorted(ready, key=ready.__getitem__):
            places = (0, 1, SUSPECTS)[name[3]]
            wanted = min(free, alone // places if places else free, room.get(name[1], free))
            due = sorted(
                (row["due"], job) for job, row in self.jobs.items() if self._open(row, name)
            )
            found = [job for when, job in due if when <= self.now][: max(0, wanted)]
            free, alone = free - len(found), alone - len(found) * places
            room = {task: left - len(found) * (task == name[1]) for task, left in room.items()}
            for job in found:
                row = self.jobs[job]
                row |= {"worker": worker, "fence": row["fence"] + 1, "due": self.now + self.lease}
            taken += sorted((self.jobs[job]["at"], job) for job in found)
            full = full or len(found) == max(0, wanted)
            short |= {name} if len(found) < wanted else set()
        late = [j for _, j in taken if (self.jobs[j]["expires"] or FOREVER) <= self.now]
        for job in sorted(late):
            if self.jobs[job]["failures"]:
                self._end(job, "failed", error=EXPIRED_AFTER_FAILING, keep=None, tried=False)
            else:
                self._end(job, "cancelled", error=EXPIRED, keep=KEEP)
        self._count()
        heads = [
            max(head, lane["due"])
            for name, lane in self.lanes.items()
            if name[1] in tasks and (head := self._head(name)) is not None
        ]
        ends = [row["due"] for row in self.jobs.values() if row["worker"]]
        # What is over was left alone, and is looked for again soon.
        leases = [end if end > self.now else self.now + 100 for end in sorted(ends)[:1]]
        later = min([when for when in heads if when > self.now] + leases, default=FOREVER)
        # Where slots or limits ran out, it is their end that says when to look again; and where a
        # job that came too late made room, the claim asks for more.
        full = full or bool(late) or bool(short & set(self._ready(tasks)))
        return [
            (j, self.jobs[j]["fence"]) for _, j in taken if j not in late
        ], None if full else later

    def _open(self, row: Row, lane: tuple[str, str, int, int]) -> bool:
        return row["lane"] == lane and row["state"] == "open" and row["worker"] is None

    def _head(self, lane: tuple[str, str, int, int]) -> int | None:
        return min(
            (row["due"] for row in self.jobs.values() if self._open(row, lane)), default=None
        )

    def _ready(self, tasks: set[str]) -> list[tuple[str, str, int, int]]:
        return [
            name
            for name, lane in self.lanes.items()
            if name[1] in tasks
            and (head := self._head(name)) is not None
            and max(head, lane["due"]) <= self.now
        ]

    def extend(self, leases: list[tuple[int, int]], worker: int) -> list[tuple[int, int]]:
        for job, fence in leases:
            if self._ours(job, fence, worker):
                self.jobs[job]["due"] = self.now + self.lease
        return [lease for lease in leases if not self._ours(*lease, worker)]

    def _ours(self, job: int, fence: int, worker: int) -> bool:
        row = self.jobs.get(job)
        return row is not None and (row["fence"], row["worker"]) == (fence, worker)

    def recover(self, *, crashed: bool, dead: set[int], take_over: bool) -> list[tuple[int, str]]:
        over = {
            j
            for j, row in self.jobs.items()
            if row["worker"] and (row["worker"] in dead or (take_over and row["due"] <= self.now))
        }
        kind = "crashed" if crashed else "lost"
        why = "its worker died while it ran" if crashed else "its worker lost the lease"
        again = {job for job in over if self._crashed_before(job)}
        charges = {}
        for job in over:
            known = {other for other in again if self._worker(other) == self._worker(job)}
            charges[job] = (self.jobs[job]["lane"][3] == 2 and known <= {job}, job in again)
        for job in sorted(over):
            self._end(job, kind, error=why, keep=None, charge=charges[job])
        return [(job, kind) for job in sorted(over)]

    def _worker(self, job: int) -> int:
        return int(self.jobs[job]["worker"])

    def _crashed_before(self, job: int) -> bool:
        """Whether its last attempt that had begun crashed."""
        ends = [end[0] for (of, _), end in sorted(self.attempts.items()) if of == job]
        begun = [outcome for outcome in ends if outcome != "lost"]
        return bool(begun) and begun[-1].startswith("crashed")

    # --- settle

    def settle(self, endings: list[Row]) -> list[str | None]:
        """Endings have id, fence, worker, kind, due, result, error, keep, watched, broken, plain."""
        answers: dict[int, str | None] = {}
        # Plain ones first, as one statement; then the others, by id.
        for e in sorted(endings, key=lambda e: e["id"]):
            if not self._ours(e["id"], e["fence"], e["worker"]):
                row = self.jobs.get(e["id"], {"state": None})
                # Told twice that it is done, since the first answer was lost: it is.
                twice = e["plain"] and row["state"] == "done" and row["fence"] == e["fence"]
                answers[e["id"]] = "done" if twice else None
            elif e["broken"]:
                more = {"error": "an effect failed", "watched": False, "keep": 1000}
                answers[e["id"]] = self._end(e["id"], "failed", **more)
            else:
                more = {name: e[name] for name in ("due", "result", "error", "keep", "watched")}
                answers[e["id"]] = self._end(e["id"], e["kind"], **more)
        return [answers[e["id"]] for e in endings]

    def _record(self, job: int, kind: str, error: str | None, *, alone: bool) -> str | None:
        if kind in {"retry", "misfit", "failed", "crashed", "lost"}:
            row = self.jobs[job]
            outcome = "crashed alone" if kind == "crashed" and alone else kind
            self.attempts[job, row["fence"]] = (outcome, row["worker"], None, self.now, error)
        return error

    def _end(  # noqa: PLR0913 - as many as an ending has
        self,
        job: int,
        kind: str,
        *,
        due: int = 0,
        result: str | None = None,
        error: str | None = None,
        keep: int | None = KEEP,
        watched: bool = True,
        charge: tuple[bool, bool] = (False, False),
        tried: bool = True,
    ) -> str:
        """`charge` says of a crash whether it counts, and whether it came after another one."""
        row = self.jobs[job]
        if row["cancel_reason"] is not None and kind != "done":
            kind, error, keep = "cancelled", row["cancel_reason"], KEEP
        if kind == "misfit":
            kind, due, error = self._misfit(job, error)
        parked = row["worker"] is None and row["due"] == FOREVER
        error = (
            self._record(job, kind, error, alone=charge[0]) if tried else f"{row['error']}\n{error}"
        )
        if kind not in {"snooze", "released", "lost"}:
            row["error"] = None if kind == "done" else error
        row["result"] = result if kind == "done" else row["result"]
        row["failures"] += tried and kind in {"retry", "failed"}
        row["due"] = due if kind in {"retry", "misfit", "snooze"} else self.now
        state = kind if kind in {"done", "failed", "cancelled"} else "open"
        final = state = self._crash(row, *charge) if kind == "crashed" else state
        if kind in {"retry", "snooze"}:
            self._clear(row)
        if state != "open" and row["again"] is not None:
            state = "open"
            row |= {"due": self.now, "failures": 0, "payload": row["again"]}
            self._clear(row)
        elif state != "open":
            row |= {"settled": self.now, "due": FOREVER if keep is None else self.now + keep}
        if final != "open":
            row["again"] = None
        row |= {"state": state, "worker": None, "cancel_reason": None}
        if watched and final != "open":
            self.events.append((job, final))
        if state != "open":
            self._follow(job, keep, parked=parked)
        return kind

    def _misfit(self, job: int, error: str | None) -> tuple[str, int, str]:
        """Twelve times in a row it is put off."""
        fence, before = self.jobs[job]["fence"], 0
        while self.attempts.get((job, fence - before - 1), ("",))[0] == "misfit" and before < 12:
            before += 1
        if before == 12:
            tries = "no worker that it fits has taken it in 13 tries over an hour"
            return "failed", 0, f"{error}; {tries}"
        return "misfit", self.now + min(5 * SECOND * 2**before, 600 * SECOND), error or ""

    def _crash(self, row: Row, alone: bool, again: bool) -> str:
        row["crashes"] += alone
        if row["crashes"] >= POISON:
            return "failed"
        level = row["lane"][3]
        row["due"] += SECOND * 2 ** max(0, row["crashes"] - 1) if level == 2 else 0
        if again:
            row["lane"] = (*row["lane"][:3], min(level + 1, 2))
            self._lane(row["lane"])
        return "open"

    def _clear(self, row: Row) -> None:
        """It has ended by itself: it is no suspect any more."""
        row |= {"crashes": 0, "lane": (*row["lane"][:3], 0)}

    def _follow(self, job: int, keep: int | None, *, parked: bool) -> None:
        """What a settled job means to others, and whether its row is kept."""
        row = self.jobs[job]
        waiting = [j for j, r in self.jobs.items() if r["after"] == job and r["state"] == "open"]
        if keep == 0 and not (row["state"] == "failed" and waiting):
            del self.jobs[job]
            self.ends[job] = row["state"]
            self.attempts = {k: v for k, v in self.attempts.items() if k[0] != job}
        if row["serial"] is not None:
            self._wake(row["serial"], sure=not parked)
        for other in sorted(waiting) if row["state"] != "failed" else []:
            if self.jobs[other]["state"] != "open":
                continue
            if row["state"] == "cancelled":
                why = f"job {job}, which it waited for, was cancelled"
                self._end(other, "cancelled", error=why)
            elif self.jobs[other]["serial"] is None:
                self._release(other)
            else:
                self._wake(self.jobs[other]["serial"])

    def _wake(self, serial: str, *, sure: bool = False) -> None:
        """The first job of the value may go, unless one is on its way or it waits for another."""
        busy = self._busy(serial)
        mine = [j for j, r in self.jobs.items() if (r["serial"], r["state"]) == (serial, "open")]
        assert not (sure and busy), "two jobs of one serial value were on their way"
        if mine and not busy and not self._waits(self.jobs[min(mine)]):
            self._release(min(mine))

    def _busy(self, serial: str) -> bool:
        """Whether a job of the serial value may be claimed or is held."""
        return any(
            (row["serial"], row["state"]) == (serial, "open")
            and (row["worker"] is not None or row["due"] < FOREVER)
            for row in self.jobs.values()
        )

    def _release(self, job: int) -> None:
        if self.jobs[job]["due"] == FOREVER and self.jobs[job]["worker"] is None:
            self.jobs[job]["due"] = self.jobs[job]["at"]

    def _waits(self, row: Row) -> bool:
        before = self.jobs.get(row["after"])
        return before is not None and before["state"] in {"open", "failed"}

    # --- operators

    def cancel(self, wanted: list[int], why: str) -> list[str]:
        answers = []
        for job in wanted:
            if job not in self.jobs:
                raise Refused("NotFound")
            row = self.jobs[job]
            if row["state"] != "open":
                answers.append(row["state"])
            elif row["worker"] is not None:
                row |= {"cancel_reason": why, "again": None}
                answers.append("cancelling")
            else:
                self._end(job, "cancelled", error=why)
                answers.append("cancelled")
        return answers

    def revive(self, wanted: list[int]) -> list[str]:
        answers = []
        for job in wanted:
            if job not in self.jobs:
                raise Refused("NotFound")
            row = self.jobs[job]
            if row["state"] == "open":
                answers.append("open")
                continue
            if self._holder(row["task"], row["key"]) is not None:
                raise Refused("Conflict")
            busy = row["serial"] is not None and self._busy(row["serial"])
            row |= {"state": "open", "failures": 0, "crashes": 0, "result": None, "settled": None}
            row["due"] = FOREVER if busy or self._waits(row) else self.now
            answers.append("revived")
        return answers

    def prune(self) -> int:
        waited_for = {r["after"] for r in self.jobs.values() if r["state"] == "open"}
        settled = {j: r for j, r in self.jobs.items() if r["state"] != "open"}
        over = {j for j, r in settled.items() if r["due"] <= self.now}
        stay = {j for j in over & waited_for if settled[j]["state"] == "failed"}
        for job in stay:
            settled[job]["due"] = self.now + DAY
        self.jobs = {j: r for j, r in self.jobs.items() if j not in over - stay}
        self.attempts = {k: v for k, v in self.attempts.items() if k[0] not in over - stay}
        forgotten = {k for k, v in self.once.items() if v[1] <= self.now}
        self.once = {k: v for k, v in self.once.items() if k not in forgotten}
        return max(len(over - stay), len(forgotten))

    def pause(self, queue: str) -> None:
        self.paused.add(queue)
        for name, lane in self.lanes.items():
            lane["due"] = FOREVER if queue in {"*", name[0]} else lane["due"]

    def resume(self, queue: str) -> None:
        self.paused.discard(queue)
        for name, lane in self.lanes.items():
            if queue in {"*", name[0]} and not self.paused & {"*", name[0]}:
                lane["due"] = 0
