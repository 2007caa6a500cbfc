"""Adaptive: a pace that looks for its own speed, by how many of its jobs succeed.

It ticks: a batch at each tick, an interval between them. Both change with the success of the last
five minutes, within bounds. What is permanently wrong with a job says nothing about the load and is
not counted; being throttled is. When nearly everything fails it cools down.
"""

from __future__ import annotations

from typing import Any

from duework.clock import FOREVER
from duework.durations import Duration, milliseconds
from duework.errors import UsageError
from duework.kernel.paces.pace import UNTIL_ASKED, State, Tick, blocked, sooner

MINUTE = 60_000
# The window of success, in minutes with the present one.
WINDOW = 5
# With fewer results than this nothing is changed.
LEAST = 5
# Success in percent: below critical it cools down; above good or great it grows.
CRITICAL, LOW, GOOD, GREAT = 20, 50, 80, 95
FIRST_BATCH, FIRST_INTERVAL = 10, 30_000
# Points of the past that are kept for people to look at.
HISTORY = 120
# What a minute has counted, in this order.
DISPATCHED, COMPLETED, FAILED = 0, 1, 2
_COUNTS = {"completed": "completed", "failed": "failed", "throttled": "failed"}


class Adaptive(Tick):
    """Grows while jobs succeed, shrinks while they fail: `Adaptive(batch=(2, 50))`."""

    kind = "adaptive"

    def __init__(
        self,
        *,
        batch: tuple[int, int] = (2, 50),
        interval: tuple[Duration, Duration] = ("10s", "2m"),
        cooldown: Duration = "5m",
        name: str | None = None,
    ) -> None:
        self.batch = _bounds("batch", batch)
        self.interval = _bounds("interval", tuple(map(milliseconds, interval)))
        super().__init__(self.batch[1], interval[0], name=name)
        self.cooldown = milliseconds(cooldown)

    def __repr__(self) -> str:
        return "Adaptive()"

    def terms(self) -> tuple[Any, ...]:
        """What two of one name must agree on."""
        return (self.kind, self.batch, self.interval, self.cooldown)

    def fresh(self) -> State:
        """The state of one that never admitted anything."""
        return {
            **super().fresh(),
            "running": 1,
            "batch": _within(self.batch, FIRST_BATCH),
            "interval": _within(self.interval, FIRST_INTERVAL),
            "cooldown": 0,
            # Of this tick: its batch, what has not ended yet, whether it has been judged.
            "size": 0,
            "pending": 0,
            "judged": 1,
            "dispatched": 0,
            "completed": 0,
            "failed": 0,
            "permanent": 0,
            "minutes": {},
            "history": [],
        }

    def load(self, stored: State) -> State:
        """A stored state, over what a new one has."""
        state = super().load(stored)
        # The bounds may be others than when it was stored.
        state["batch"] = _within(self.batch, state["batch"])
        state["interval"] = _within(self.interval, state["interval"])
        return state

    def most(self, state: State) -> int:
        """What may be taken in one window."""
        # A batch that has grown meanwhile is the next tick's.
        return int(state["size"] or state["batch"])

    def _over(self, state: State) -> int:
        # Exactly at the end of a cooldown, however long the interval is.
        return int(state["cooldown"] or state["tick"] + state["interval"])

    def bring_up(self, state: State, now: int) -> None:
        """Bring the state up to this time."""
        if state["tick"] - self.interval[1] <= now < self._over(state):
            return
        # What is still under way has been waited for long enough.
        if not state["judged"]:
            self.adapt(state, now)
            if now < self._over(state):
                return
        state.update(tick=now, used=0, pending=0, cooldown=0, judged=0, size=state["batch"])

    def left(self, state: State, now: int) -> int:
        """What may be taken now."""
        if not state["running"] or state["cooldown"] > now:
            return 0
        return super().left(state, now)

    def take(self, state: State, now: int, units: int) -> None:
        """Count what was taken."""
        super().take(state, now, units)
        state["pending"] += units
        state["dispatched"] += units
        self._minute(state, now)[DISPATCHED] += units

    def again(self, state: State, now: int) -> int:
        """When more may be taken."""
        if not state["running"]:
            return UNTIL_ASKED
        waits = self._over(state) if state["used"] or state["cooldown"] > now else now + 1
        return int(max(waits, state["blocked"], now + 1))

    def back(self, state: State, now: int, ahead: int) -> None:
        """The clock was ahead: so was its cooldown."""
        super().back(state, now, ahead)
        sooner(state, "cooldown", now, ahead)

    def apply(self, state: State, now: int, word: str, value: Any) -> bool:
        """Take in what happened."""
        super().apply(state, now, word, value)
        state["pending"] = max(0, state["pending"] - 1)
        if word == "permanent":
            state["permanent"] += 1
        elif (counted := _COUNTS.get(word)) is not None:
            state[counted] += 1
            self._minute(state, now)[COMPLETED if counted == "completed" else FAILED] += 1
        if state["pending"] or state["judged"]:
            return False
        return self.adapt(state, now)

    def start_by(self, state: State, now: int) -> int:  # noqa: ARG002 - it counts ends, not starts
        """The end of the window."""
        return FOREVER

    # --- the controller

    def adapt(self, state: State, now: int) -> bool:
        """Choose batch and interval by the success of the window; whether it ticks earlier now."""
        state["judged"] = 1
        good, bad = self.window(state, now)
        if good + bad < LEAST:
            return False
        before = self._over(state)
        # In whole numbers: at exactly 20, 50, 80 and 95 % nothing is rounded.
        rate, all_ = 100 * good, good + bad
        if rate < CRITICAL * all_:
            state["cooldown"] = now + self.cooldown
            self._move(state, self.batch[0], self.interval[1])
        elif rate < LOW * all_:
            self._move(state, state["batch"] * 50 // 100, state["interval"] * 150 // 100)
        elif rate > GREAT * all_:
            self._move(state, -(-state["batch"] * 125 // 100), state["interval"] * 80 // 100)
        elif rate > GOOD * all_:
            self._move(state, -(-state["batch"] * 110 // 100), state["interval"] * 95 // 100)
        point = [now, state["batch"], state["interval"], _percent(good, bad)]
        state["history"] = [*state["history"], point][-HISTORY:]
        return self._over(state) < before

    def _move(self, state: State, batch: int, interval: int) -> None:
        state["batch"] = _within(self.batch, batch)
        state["interval"] = _within(self.interval, interval)

    def window(self, state: State, now: int) -> tuple[int, int]:
        """What succeeded and what failed in the last minutes."""
        self._minute(state, now)
        counts = state["minutes"].values()
        return sum(each[COMPLETED] for each in counts), sum(each[FAILED] for each in counts)

    def _minute(self, state: State, now: int) -> list[int]:
        """The counts of the present minute; older ones than the window are dropped."""
        present = now // MINUTE
        minutes = {
            each: counts
            for each, counts in state["minutes"].items()
            if present - WINDOW < int(each) <= present
        }
        state["minutes"] = minutes
        found: list[int] = minutes.setdefault(str(present), [0, 0, 0])
        return found

    def show(self, state: State, now: int) -> dict[str, Any]:
        """The state for people."""
        good, bad = self.window(state, now)
        per_minute = good // WINDOW if good % WINDOW == 0 else good / WINDOW
        return {
            "running": bool(state["running"]),
            "total_dispatched": state["dispatched"],
            "total_completed": state["completed"],
            "total_failed": state["failed"],
            "total_permanent": state["permanent"],
            "completions_per_minute": per_minute,
            "success_rate": _percent(good, bad),
            "current_batch_size": state["batch"],
            "current_interval_ms": state["interval"],
            "in_cooldown": state["cooldown"] > now,
            "cooldown_until": state["cooldown"] if state["cooldown"] > now else None,
            "projected_per_day": per_minute * 60 * 24,
            "blocked": blocked(state, now),
        }


def _percent(good: int, bad: int) -> int:
    """Half up; 100 if there is nothing to judge by."""
    return (200 * good + good + bad) // (2 * (good + bad)) if good + bad else 100


def _within(bounds: tuple[int, int], value: int) -> int:
    return max(bounds[0], min(bounds[1], value))


def _bounds(what: str, bounds: Any) -> tuple[int, int]:
    match tuple(bounds):
        case (int() as low, int() as high) if 1 <= low <= high:
            return low, high
    raise UsageError(f"{what} is a pair of bounds, the lower one first: not {bounds!r}")
