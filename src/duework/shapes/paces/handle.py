"""Paces for people: what each of them admits now, and an operator's wishes.

The mechanism is the kernel's (`kernel/paces/`); here is how an App shows it and lets it be changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from duework.averbs import Verbs, averb
from duework.durations import Duration, milliseconds
from duework.errors import NotFound, UsageError
from duework.kernel.paces import admission, wishes
from duework.kernel.paces.admission import PACES
from duework.kernel.paces.pace import Pace, whole
from duework.kernel.paces.wishes import Change


@dataclass(frozen=True, slots=True)
class PaceStatus:
    """A pace as it was when it was looked at."""

    name: str
    kind: str
    # What it was declared as, if this process knows it.
    says: str
    # Taken in the present window, and the most that may be.
    used: int
    limit: int
    # In milliseconds since 1970, if that is still to come: nothing starts until then; when the
    # first lane that waits for it is due.
    blocked_until: int | None
    waits_until: int | None
    # What only this kind has: windows of a quota, the success of an adaptive one.
    details: dict[str, Any]
    # Whether an operator has stopped it.
    stopped: bool = False
    # For an adaptive one: (time, batch, interval in ms, success in percent) of each change.
    history: list[tuple[int, int, int, int]] = field(default_factory=list)
    _paces: Any = field(default=None, repr=False, compare=False)

    def block(self, length: Duration) -> None:
        """Start nothing more of it for so long; 0 ends a block."""
        self._paces.block(self.name, length)

    def reset(self) -> None:
        """As if it had never admitted anything."""
        self._paces.reset(self.name)

    def stop(self) -> None:
        """Admit nothing until `start`; only an adaptive pace can be stopped."""
        self._run(running=False)

    def start(self) -> None:
        """Admit jobs again after `stop`."""
        self._run(running=True)

    def _run(self, *, running: bool) -> None:
        if self.kind != "adaptive":
            raise UsageError(f"{self.name} is no adaptive pace; use block, or pause its queue")
        self._paces.change(self.name, wishes.run(running=running))

    ablock = averb(block)
    areset = averb(reset)
    astop = averb(stop)
    astart = averb(start)


class Paces(Verbs):
    """What an App knows of its paces."""

    def search(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[PaceStatus]:
        """Every pace that has admitted something or is declared here, by name; go on with `after=`.

        A rate `per` value has a row for each value that was busy lately, as `name[value]`.
        """
        now = self.now()
        # The one to go on behind may be among them.
        first, wanted = max(prefix, after), limit + bool(after)
        values = {"prefix": prefix, "after": first, "now": now, "wanted": wanted}
        with self.engine.database.reading() as tx:
            rows = tx.query(PACES.paces, values)
        found = {row[0]: self._pace_status(row, now) for row in rows}
        for name, pace in self.registry.paces.items():
            if name not in found and name.startswith(prefix) and not (pace.per or pace.by_lane):
                row = (name, pace.kind, "{}", 0, 0, 0, 0, None)
                found[name] = self._pace_status(row, now)
        return [found[name] for name in sorted(found) if not after or name > after][:limit]

    def get(self, name: str) -> PaceStatus:
        """One of them; `NotFound` if there is none of that name."""
        for each in self.search(name, limit=1):
            if each.name == name:
                return each
        raise NotFound(f"there is no pace {name}")

    def block(self, name: str, length: Duration) -> None:
        """Start nothing more of a pace for so long; 0 ends a block."""
        self.change(name, wishes.block(milliseconds(length), self.now()))

    def reset(self, name: str) -> None:
        """Let a pace forget everything: what it used, what blocks it, what it learned."""
        self.change(name, wishes.reset)

    def take(self, name: str, units: int = 1) -> bool:
        """Take so much of a quota at once; False, and nothing is taken, if that is not left of it.

        For a job that finds out on its way that it needs more than its claim took.
        """
        known = self.registry.paces.get(name)
        if known is None or known.kind != "quota":
            raise UsageError(f"{name} is no quota that is declared here")
        wanted = (name, known, whole("what is taken", units))
        granted: bool = self.engine.writer.call(self.engine.take_paces, [wanted])[0]
        return granted

    def change(self, name: str, how: Change) -> None:
        """Change the row of a pace."""
        known = self.registry.paces.get(name)
        wanted = (name, known.kind if known is not None else None, how)
        self.engine.writer.call(self.engine.change_pace, [wanted])

    def find(self, name: str) -> Pace | None:
        """The pace behind a row, also behind that of one lane."""
        paces = self.registry.paces
        common = paces.get(name.partition("[")[0])
        return common if common is not None and common.by_lane else paces.get(name)

    def _pace_status(self, row: tuple[Any, ...], now: int) -> PaceStatus:
        name, kind, text, used, limit, blocked, _, waits = row
        known = self.find(name)
        state = admission.stored(text)
        details: dict[str, Any] = {}
        if known is not None:
            state = known.load(state)
            if kind != "adaptive":
                # A look must not judge what an adaptive one has not judged yet.
                known.bring_up(state, now)
            details = known.show(state, now)
            used, limit = state["used"], known.most(state)
        return PaceStatus(
            name,
            kind,
            repr(known) if known is not None else "",
            used,
            limit,
            blocked_until=blocked if blocked > now else None,
            waits_until=waits,
            details=details,
            stopped=state.get("running") == 0,
            history=[(p[0], p[1], p[2], p[3]) for p in state.get("history", ())],
            _paces=self,
        )
