"""Quota: what an upstream grants in windows of the clock, and what it says is left of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

from duework.durations import Duration, Moment, milliseconds, moment
from duework.errors import UsageError
from duework.kernel.paces.pace import Pace, State, blocked, period, whole

# What a window had before anything was given back.
_SHORT = 3
Seen = int | Sequence[int] | Mapping[str, int] | None


class Quota(Pace):
    """What an upstream grants in windows of the clock, shared by all that name it.

    `Quota("strava", windows={"15m": 100, "1d": 1000}, reserve=5)` leaves 5 % of each window to
    others. Windows start where the clock has them: at full quarter hours, at midnight UTC.
    """

    kind = "quota"

    def __init__(self, name: str, *, windows: Mapping[str, int], reserve: int = 0) -> None:
        super().__init__(name)
        if not windows:
            raise UsageError("a quota has one window or more, as windows={'15m': 100}")
        if whole("reserve, in percent,", reserve, 0) >= 100:  # noqa: PLR2004 - percent
            raise UsageError("reserve is a percentage below 100")
        found = [
            (period(each), whole("a window's limit", limit), each)
            for each, limit in windows.items()
        ]
        found.sort()
        self.lengths = tuple(length for length, _, _ in found)
        self.limits = tuple(limit for _, limit, _ in found)
        self.labels = tuple(label for _, _, label in found)
        self.reserve = reserve

    def __repr__(self) -> str:
        return f"Quota({self.name!r})"

    def terms(self) -> tuple[Any, ...]:
        """What two of one name must agree on."""
        return (self.kind, self.lengths, self.limits, self.reserve)

    def cost(self, units: int) -> Self:
        """The same quota for jobs that use more than one of it each."""
        other = copy.copy(self)
        other.units = whole("cost", units)
        if units > min(map(self._usable, self.limits)):
            raise UsageError(f"{self!r} never grants {units} at once")
        return other

    def saw(
        self,
        *,
        used: Seen = None,
        limit: Seen = None,
        resets_at: Moment | Sequence[Moment] | None = None,
    ) -> None:
        """Report what the upstream said: for the shortest window, or one value for each of them.

        Written down with the next settle of this process, or at once where none works.
        """
        ends = [resets_at] if isinstance(resets_at, (str, int)) else _values(resets_at)
        value = {
            "used": self._each(used, "used"),
            "limit": self._each(limit, "limit"),
            "ends": [None if end is None else moment(end) for end in self._each(ends, "resets_at")],
        }
        self.report("saw", value)

    def blocked(self, retry_after: Duration) -> None:
        """Start nothing more of this quota for a while; the upstream said so."""
        self.report("throttled", milliseconds(retry_after))

    def _each(self, seen: Any, what: str) -> list[Any]:
        """One value for each window, shortest first; None for those it did not name."""
        if isinstance(seen, Mapping):
            if stray := set(seen) - set(self.labels):
                raise UsageError(f"{self!r} has no window {', '.join(sorted(stray))}")
            found = [seen.get(label) for label in self.labels]
        else:
            found = [seen] if isinstance(seen, int) else _values(seen)
        if len(found) > len(self.lengths):
            raise UsageError(f"{what} has more values than {self!r} has windows")
        return found + [None] * (len(self.lengths) - len(found))

    def fresh(self) -> State:
        """The state of one that never admitted anything."""
        # For each window: where it ends, what is used, the limit and the use that the upstream named,
        # and since when it counts.
        return {"used": 0, "windows": [[0, 0, 0, 0, 0] for _ in self.lengths]}

    def load(self, stored: State) -> State:
        """A stored state, over what a new one has."""
        state = super().load(stored)
        if len(state["windows"]) != len(self.lengths):
            state["windows"] = self.fresh()["windows"]
        for window in state["windows"]:
            if len(window) == _SHORT:
                # Stored by code that gave nothing back: nor is anything to this window.
                window += [0, window[0]]
        return state

    def most(self, state: State) -> int:
        """What may be taken in one window."""
        return self._usable(state["windows"][0][2] or self.limits[0])

    def _usable(self, limit: int) -> int:
        return limit * (100 - self.reserve) // 100

    def bring_up(self, state: State, now: int) -> None:
        """Bring the state up to this time."""
        for window, length in zip(state["windows"], self.lengths, strict=True):
            # One that ends far ahead was made before the clock was set back.
            if not now < window[0] <= now + 2 * length:
                window[:2] = (now // length + 1) * length, 0
                window[3:] = 0, now
        state["used"] = state["windows"][0][1]

    def back(self, state: State, now: int, ahead: int) -> None:
        """The clock was ahead: its windows end when those of the clock do."""
        super().back(state, now, ahead)
        for window, length in zip(state["windows"], self.lengths, strict=True):
            window[0] = min(window[0], (now // length + 1) * length)

    def _lefts(self, state: State) -> list[int]:
        pairs = zip(state["windows"], self.limits, strict=True)
        return [self._usable(window[2] or limit) - window[1] for window, limit in pairs]

    def left(self, state: State, now: int) -> int:
        """What may be taken now."""
        return 0 if blocked(state, now) else max(0, min(self._lefts(state)))

    def take(self, state: State, now: int, units: int) -> None:  # noqa: ARG002 - turned already
        """Count what was taken."""
        for window in state["windows"]:
            window[1] += units
        state["used"] = state["windows"][0][1]

    def again(self, state: State, now: int) -> int:
        """When more may be taken."""
        pairs = zip(state["windows"], self._lefts(state), strict=True)
        ends = [window[0] for window, left in pairs if left < self.units]
        return int(max([state["blocked"], now + 1, *ends]))

    def start_by(self, state: State, now: int) -> int:  # noqa: ARG002 - the first window's end
        """The end of the window."""
        return int(min(window[0] for window in state["windows"]))

    def _give_back(self, state: State, now: int, taken: int, used: int, at: int) -> bool:
        """A job that took so much at that time has used so much; whether more is left now."""
        self.bring_up(state, now)
        before, unused = min(self._lefts(state)), taken - used
        for window in state["windows"]:
            _, count, _, seen, since = window
            if unused < 0:
                window[1] = count - unused
            elif since <= at <= now:
                # In a window that is over it was lost; and the upstream has counted what it has.
                window[1] = min(count, max(seen, count - unused))
        state["used"] = state["windows"][0][1]
        return min(self._lefts(state)) > before

    def apply(self, state: State, now: int, word: str, value: Any) -> bool:
        """Take in what happened."""
        if word == "spent":
            return self._give_back(state, now, *value)
        if word != "saw":
            return super().apply(state, now, word, value)
        self.bring_up(state, now)
        before = min(self._lefts(state))
        report = zip(state["windows"], value["used"], value["limit"], value["ends"], strict=True)
        for window, used, limit, end in report:
            # What is under way has been taken and is not in the upstream's count yet.
            window[1] = max(window[1], used or 0)
            window[3] = max(window[3], used or 0)
            window[2] = limit or window[2]
            if end is not None and end > now:
                window[0] = end
        state["used"] = state["windows"][0][1]
        return min(self._lefts(state)) > before or any(end is not None for end in value["ends"])

    def show(self, state: State, now: int) -> dict[str, Any]:
        """The state for people."""
        self.bring_up(state, now)
        rows = zip(self.labels, state["windows"], self.limits, strict=True)
        return {
            label: {"used": window[1], "limit": self._usable(window[2] or limit), "ends": window[0]}
            for label, window, limit in rows
        }


def _values(seen: Any) -> list[Any]:
    if seen is None:
        return []
    if isinstance(seen, Sequence) and not isinstance(seen, str):
        return list(seen)
    return [seen]
