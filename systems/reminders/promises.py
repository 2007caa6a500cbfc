"""What was promised to be delivered, channel by channel, to be compared with the receivers' own books."""

from __future__ import annotations

import msgspec

from duework import App
from systems.reminders import log
from systems.reminders.rules import sent_id


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """One channel of one fire: `key` is what the receiver counts it by."""

    channel: str
    key: str
    state: str
    reminder: str


def promises(app: App, *, limit: int = 1_000_000) -> list[Promise]:
    """Every channel of every fire that has begun, oldest first.

    The receiver has each `sent` one once, by its key; a `failed` one not at all, or once if only the
    reply was lost; an `unsure` or `sending` one at most once.
    """
    found: list[Promise] = []
    last = -1
    while len(found) < limit:
        rows = app.read(f"{log.SELECT} where h.job > :last order by h.job limit 1000", last=last)
        if not rows:
            break
        last = rows[-1].job
        found.extend(each for row in rows for each in _of(app, log.fire_of(row)))
    return found[:limit]


def _of(app: App, fire: log.Fire) -> list[Promise]:
    states = {name: fire.state_of(name) for name in fire.channels}
    if fire.outcome == "sending":
        # Not judged yet: each channel knows by itself.
        states |= {each.channel: each.state for each in app.deliveries.channels(fire.job)}
    return [
        Promise(
            channel=name,
            key=f"{fire.key}:email"
            if name == "email"
            else sent_id(f"{fire.key}:{name}", fire.body),
            state=state,
            reminder=fire.reminder,
        )
        for name, state in states.items()
    ]
