"""The score: what was promised, by our rows, against what arrived, by the receivers' own books.

`lost`: we say it was sent, and the receiver has nothing. `twice`: the receiver has more than one effect.
A receiver that knows keys counts an effect by its key, so a request that is repeated with the same key is
one effect; elsewhere every request is one. `unsure`: we say that nobody can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from duework import App
from systems import mailroom, reminders, streaks
from systems.demo.receivers import Receivers
from systems.strides import promises as strides

OVER = {"sent", "failed", "unsure", "cancelled"}


@dataclass
class Line:
    """How one system stands."""

    system: str
    promised: int = 0
    delivered: int = 0
    lost: int = 0
    twice: int = 0
    unsure: int = 0
    failed: int = 0
    # What was lost or came twice, for whoever has to find out.
    examples: list[str] = field(default_factory=list)

    @property
    def on_the_way(self) -> int:
        return max(0, self.promised - self.delivered - self.lost - self.failed - self.unsure)

    def count(
        self,
        promises: Iterable[tuple[Hashable, str]],
        arrived: Counter[Any],
        *,
        keyed: bool = False,
    ) -> None:
        """Compare promises, an identity and a state each, with what arrived."""
        for identity, state in promises:
            there = arrived[identity]
            self.promised += 1
            self.twice += max(0, there - 1) if not keyed else 0
            if not keyed and there > 1:
                self.examples.append(f"twice: {identity}")
            self._settle(identity, state, there=bool(there))

    def _settle(self, identity: Hashable, state: str, *, there: bool) -> None:
        if state == "unsure":
            # It may have arrived; that is what unsure says.
            self.unsure += 1
        elif there:
            self.delivered += 1
        elif state == "sent":
            self.lost += 1
            self.examples.append(f"lost: {identity}")
        elif state in OVER:
            self.failed += 1


@dataclass
class Score:
    """All lines, and what they come to: messages that people get, and rows that are stored."""

    lines: list[Line]

    def total(self, what: str) -> int:
        """Over the systems that send something to people."""
        return sum(int(getattr(line, what)) for line in self.lines if line.system in SENDERS)

    def everywhere(self, what: str) -> int:
        """Over all systems."""
        return sum(int(getattr(line, what)) for line in self.lines)

    def as_json(self) -> list[dict[str, Any]]:
        return [{**asdict(line), "on_the_way": line.on_the_way} for line in self.lines]

    def __str__(self) -> str:
        parts = (
            f"promised {self.total('promised'):,}",
            f"delivered {self.total('delivered'):,}",
            f"lost {self.everywhere('lost')}",
            f"twice {self.everywhere('twice')}",
            f"unsure {self.everywhere('unsure')}",
        )
        return " · ".join(parts)


SENDERS = ("reminders", "mailroom", "streaks")


def score(app: App, receivers: Receivers) -> Score:
    """How it stands now. Promises are read first: what arrives meanwhile is no promise too few."""
    return Score(
        [
            _reminders(app, receivers),
            _mailroom(app, receivers),
            _streaks(app, receivers),
            _strides(app, receivers),
        ]
    )


def _reminders(app: App, receivers: Receivers) -> Line:
    promised = reminders.promises(app)
    line = Line("reminders")
    mails = [((each.key,), each.state) for each in promised if each.channel == "email"]
    hooks = [((each.key,), each.state) for each in promised if each.channel != "email"]
    line.count(mails, receivers.counts("resend", "mail", "key"))
    line.count(hooks, receivers.counts("hooks", "delivered", "id"), keyed=True)
    return line


def _mailroom(app: App, receivers: Receivers) -> Line:
    promised = mailroom.promises(app)
    line = Line("mailroom")
    line.count(
        [((each.key,), each.state) for each in promised], receivers.counts("acs", "mail", "key")
    )
    return line


def _streaks(app: App, receivers: Receivers) -> Line:
    promised = streaks.promises(app)
    line = Line("streaks")
    for channel, facts in (("discord", ("hook", "content")), ("telegram", ("chat", "text"))):
        mine = [
            ((str(each.address), each.text), each.state)
            for each in promised
            if each.channel == channel
        ]
        arrived = Counter(
            (str(where), text)
            for (where, text), times in receivers.counts(channel, "message", *facts).items()
            for _ in range(times)
        )
        line.count(mine, arrived)
    return line


def _strides(app: App, receivers: Receivers) -> Line:
    """An activity that Strava has is promised; it is delivered when it is in our table."""
    line = Line("strides")
    for each in strides.promises(app):
        listed = receivers.switch("strava", "list_activities", athlete=each.athlete) or ()
        there = {activity["id"] for activity in listed}
        line.promised += len(there)
        line.delivered += len(there & each.activities)
        if each.state == "done":
            line.lost += len(there - each.activities)
    return line
