"""Paces: how many jobs may start, and when more may. Arithmetic only: no clock, no database.

A pace works on a state, a dictionary of integers that is stored between claims and shared by all
processes. `bring_up` brings a state up to a time, `left` says what may be taken then, `take` takes it,
and `again` says when to ask again. Everything is exact in integers: a token is worth as many units
as its period has milliseconds, so that a refill per millisecond is a whole number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar, Self

from duework.clock import FOREVER
from duework.durations import Duration, human, milliseconds
from duework.errors import UsageError

State = dict[str, Any]
# When a lane is to be looked at that waits for a person. Not FOREVER: that is a pause.
UNTIL_ASKED = FOREVER - 1
# A block is what accumulates in this time, whatever the rate. Half of it may pile up, since what is
# taken starts a little later, more or less; and a quarter is waited for, so that few claims do.
BLOCK_MS = 200
# Nothing is taken in the last moments of a period, so that what was taken also starts in it.
GUARD_MS = 20
# What was written later than that from now was written by a clock that has been set back since.
AHEAD_MS = 2000
# By which clocks of two processes may differ: where many start at once, none does so near to the
# edge of a period.
MARGIN_MS = 3
SHORTEST_MS = 10
# What `per=` says where every lane of an outbox has a pace of its own.
LANE = "lane"
_RATE = re.compile(r"\s*(\d+)\s*/\s*(\S.*)")
_NAME = re.compile(r"[A-Za-z_][\w.:-]{0,199}")


class Pace:
    """What admits jobs: by itself, or as one of a list that must all admit."""

    kind: ClassVar[str] = ""
    # The argument whose every value has a pace of its own.
    per: str | None = None
    # Whether every lane has one of its own: of an outbox, every `lane=` of its messages.
    by_lane: bool = False
    # What one job takes.
    units: int = 1

    def __init__(self, name: str | None) -> None:
        if name is not None and not _NAME.fullmatch(name):
            raise UsageError(
                f"a pace's name has letters, digits and . _ : - and starts with a letter: not {name!r}"
            )
        self.name = name
        # What writes down the reports to this pace: (name, word, value).
        self.listeners: list[Callable[[Pace, str, Any], None]] = []

    def own(self) -> Self:
        """Itself if it has a name to be shared by, else another of the same terms."""
        if self.name is not None:
            return self
        other = copy(self)
        other.listeners = []
        return other

    def for_lanes(self) -> Self:
        """The same where `per="lane"` stands for the lanes of jobs and not for an argument."""
        made = self.own()
        if made.per == LANE:
            made = copy(made)
            made.listeners, made.per, made.by_lane = [], None, True
        return made

    def over(self, state: State) -> int:
        """From when on a state is as good as none."""
        raise NotImplementedError

    def terms(self) -> tuple[Any, ...]:
        """What two paces of one name must agree on."""
        raise NotImplementedError

    def fresh(self) -> State:
        """The state of one that never admitted anything."""
        raise NotImplementedError

    def most(self, state: State) -> int:
        """What may be taken in one window."""
        raise NotImplementedError

    def bring_up(self, state: State, now: int) -> None:
        """Bring the state up to this time."""
        raise NotImplementedError

    def left(self, state: State, now: int) -> int:
        """Units that may be taken now; the state has been turned."""
        raise NotImplementedError

    def take(self, state: State, now: int, units: int) -> None:
        """Count what was taken."""
        raise NotImplementedError

    def again(self, state: State, now: int) -> int:
        """When to ask again, if there is not enough for a job now; later than now."""
        raise NotImplementedError

    def bound(self, state: State, now: int) -> int:  # noqa: ARG002 - ticks differ
        """Jobs that came due after this wait for the next window."""
        return now

    def start_by(self, state: State, now: int) -> int:  # noqa: ARG002 - some have no windows
        """What is taken now must have started by then, or it counts elsewhere."""
        return FOREVER

    def load(self, stored: State) -> State:
        """A stored state, over what a new one has."""
        return {"blocked": 0, **self.fresh(), **stored}

    def apply(self, state: State, now: int, word: str, value: Any) -> bool:
        """Take in what happened; whether something may be admitted earlier than was thought."""
        if word == "throttled":
            until = min(max(state["blocked"], now + value), UNTIL_ASKED)
            state["blocked"] = until
        return False

    def back(self, state: State, now: int, ahead: int) -> None:
        """It was written by a clock that was so far ahead, and has been set right since."""
        sooner(state, "blocked", now, ahead)

    def report(self, word: str, value: Any) -> None:
        """Let every App that has this pace write down a report."""
        if not self.listeners:
            raise UsageError(f"{self!r} belongs to no task or queue yet: give it as pace=")
        for listener in self.listeners:
            listener(self, word, value)

    def show(self, state: State, now: int) -> dict[str, Any]:  # noqa: ARG002 - some need it
        """For people: the state in words and numbers."""
        return {"used": state["used"], "limit": self.most(state)}


def blocked(state: State, now: int) -> bool:
    return bool(state["blocked"] > now)


def sooner(state: State, key: str, now: int, ahead: int) -> None:
    """Bring a time back that lies ahead; what waits for a person goes on waiting."""
    if now < state[key] < UNTIL_ASKED:
        state[key] -= ahead


def whole(what: str, number: Any, least: int = 1) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise UsageError(f"{what} is a whole number from {least} up, not {number!r}")
    return number


def period(length: Duration) -> int:
    period = milliseconds(length)
    if period < SHORTEST_MS:
        raise UsageError(f"a pace's period is {SHORTEST_MS} ms or more, not {length!r}")
    return period


class Rate(Pace):
    """So many starts in a period, evenly: `Rate("20/1m")`, `Rate("5/2s", per="webhook")`.

    Never more than that in a period of the clock, and in any other stretch of that length at most
    `burst` more. With `per`, every value of that argument has a rate of its own; in an outbox, with
    `per="lane"`, every lane.
    """

    kind = "rate"

    def __init__(
        self,
        rate: str,
        *,
        per: str | None = None,
        burst: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        match = _RATE.fullmatch(rate) if isinstance(rate, str) else None
        if match is None:
            raise UsageError(f"a rate is a count and a period, as '20/1m': not {rate!r}")
        length = match[2] if match[2][0].isdigit() else f"1{match[2]}"
        self.rate = rate
        self.count = whole("the count of a rate", int(match[1]))
        self.period = period(length)
        self.per = per
        block = max(1, min(self.count, self.count * BLOCK_MS // self.period))
        self.burst = block if burst is None else min(whole("burst", burst), self.count)
        self._pile = self.burst - min(self.burst // 2, block // 2)
        self._chunk = max(1, min(block // 4, self._pile))
        self._guard = min(GUARD_MS, self.period // 50)
        self._margin = min(MARGIN_MS, self.period // 200) if self.burst > 1 else 0
        # More than that by half a token: a job that comes a little late loses nothing.
        self._cap = self._pile * self.period + self.period // 2

    def __repr__(self) -> str:
        return f"Rate({self.rate!r})"

    def terms(self) -> tuple[Any, ...]:
        """What two of one name must agree on."""
        return (self.kind, self.count, self.period, self.burst, self.per, self.by_lane)

    def fresh(self) -> State:
        """The state of one that never admitted anything."""
        return {"at": 0, "level": self._pile * self.period, "period": -1, "open": 0, "used": 0}

    def most(self, state: State) -> int:  # noqa: ARG002 - the same at all times
        """What may be taken in one window."""
        return self.count

    def _when(self, state: State, now: int) -> int:
        """The time to count with: others may be a little ahead; a clock set back far is believed."""
        return int(state["at"]) if state["at"] - self.period <= now < state["at"] else now

    def bring_up(self, state: State, now: int) -> None:
        """Bring the state up to this time."""
        when = self._when(state, now)
        passed = max(0, when - state["at"]) if state["at"] else 0
        state["level"] = min(self._cap, state["level"] + passed * self.count)
        state["at"] = when
        period = when // self.period
        if state["period"] != period:
            follows = state["period"] == period - 1 and state["used"]
            state["open"] = period * self.period + self._margin if follows else 0
            state["period"], state["used"] = period, 0

    def left(self, state: State, now: int) -> int:
        """What may be taken now."""
        when = self._when(state, now)
        if blocked(state, now) or self._opens(state, when) > when:
            return 0
        return int(max(0, min(state["level"] // self.period, self.count - state["used"])))

    def take(self, state: State, now: int, units: int) -> None:  # noqa: ARG002 - turned already
        """Count what was taken."""
        state["level"] -= units * self.period
        state["used"] += units

    def again(self, state: State, now: int) -> int:
        """When more may be taken."""
        when = self._when(state, now)
        missing = self._chunk * self.period - state["level"]
        ready = when + max(0, -(-missing // self.count))
        if state["used"] >= self.count:
            ready = max(ready, self._end(when))
        return self._opens(state, max(ready, state["blocked"], now + 1))

    def back(self, state: State, now: int, ahead: int) -> None:
        """The clock was ahead: count from now on."""
        super().back(state, now, ahead)
        if "next" in state:
            self.empty(state, now)
        else:
            sooner(state, "at", now, ahead)

    def start_by(self, state: State, now: int) -> int:
        """The end of the period."""
        return self._end(self._when(state, now)) - self._margin

    def over(self, state: State) -> int:
        """By then it is full, and the period before is no neighbour of the present one."""
        return int(max(state["blocked"], state["at"] + 2 * self.period))

    def _end(self, when: int) -> int:
        return (when // self.period + 1) * self.period

    def _opens(self, state: State, when: int) -> int:
        """The first time from then on that is not at the edge of a period."""
        end = self._end(when)
        if when >= end - self._guard:
            return end + self._margin
        if state["used"] and when // self.period == state["period"] + 1:
            return max(when, end - self.period + self._margin)
        return int(max(when, state["open"]))

    # --- per value: each job is given a time of its own

    def fresh_value(self) -> State:
        """The state of a value that never started anything."""
        return {"blocked": 0, "next": 0}

    @property
    def gap(self) -> int:
        """Milliseconds between two starts of one value, rounded up."""
        return -(-self.period // self.count)

    def promise(self, state: State, now: int) -> int:
        """The time at which one more job of this value may start; it is taken."""
        start = max(now, state["blocked"]) * self.count
        slot = max(start, state["next"] - (self.burst - 1) * self.period)
        state["next"] = max(slot, state["next"]) + self.period
        return int(-(-slot // self.count))

    def empty(self, state: State, now: int) -> None:
        """No time is promised to a job any more; what may have started has."""
        state["next"] = min(state["next"], now * self.count + self.burst * self.period)

    def keeps(self, state: State, now: int, slot: int) -> bool:
        """Whether a time that was promised still holds: not blocked since, nor long missed."""
        return not blocked(state, now) and slot <= now <= slot + max(self.gap, BLOCK_MS)

    def idle_at(self, state: State) -> int:
        """From when on the state of a value is as good as none."""
        return int(max(state["blocked"], -(-state["next"] // self.count)))


class Tick(Pace):
    """So many at each tick, and ticks at least a period apart: `Tick(15, "10s")`.

    A job that comes between two ticks waits for the next; it does not make one. In an outbox, with
    `per="lane"`, every lane has ticks of its own.
    """

    kind = "tick"

    def __init__(
        self, count: int, every: Duration, *, per: str | None = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        if per not in (None, LANE):
            raise UsageError(f"per= of a tick is 'lane', in an outbox, or left out: not {per!r}")
        self.per = per
        self.count = whole("the count of a tick", count)
        self.period = period(every)

    def __repr__(self) -> str:
        return f"Tick({self.count}, {human(self.period)!r})"

    def terms(self) -> tuple[Any, ...]:
        """What two of one name must agree on."""
        return (self.kind, self.count, self.period, self.by_lane)

    def fresh(self) -> State:
        """The state of one that never admitted anything."""
        return {"tick": -FOREVER, "used": 0}

    def most(self, state: State) -> int:  # noqa: ARG002 - the same at all times
        """What may be taken in one window."""
        return self.count

    def over(self, state: State) -> int:
        """The next tick begins anew."""
        return max(int(state["blocked"]), self._over(state))

    def _over(self, state: State) -> int:
        return int(state["tick"] + self.period)

    def bring_up(self, state: State, now: int) -> None:
        """Bring the state up to this time."""
        # One that lies far ahead was made before the clock was set back.
        if not state["tick"] - self.period <= now < self._over(state):
            state["tick"], state["used"] = now, 0

    def left(self, state: State, now: int) -> int:
        """What may be taken now."""
        return 0 if blocked(state, now) else max(0, self.most(state) - state["used"])

    def take(self, state: State, now: int, units: int) -> None:  # noqa: ARG002 - turned already
        """Count what was taken."""
        state["used"] += units

    def again(self, state: State, now: int) -> int:
        """When more may be taken."""
        waits = self._over(state) if state["used"] else now + 1
        return int(max(waits, state["blocked"], now + 1))

    def back(self, state: State, now: int, ahead: int) -> None:
        """The clock was ahead: so was its tick."""
        super().back(state, now, ahead)
        sooner(state, "tick", now, ahead)

    def bound(self, state: State, now: int) -> int:
        """Jobs that came due after the tick wait for the next."""
        return int(min(now, state["tick"]))

    def start_by(self, state: State, now: int) -> int:  # noqa: ARG002 - the tick's own end
        """The end of the window."""
        return self._over(state)
