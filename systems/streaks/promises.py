"""What was promised to whom, and what became of it: to be compared with the receivers' own ledgers.

A promise is written in the commit that also stores its delivery. The receivers' side of it is the address
(a webhook's id, a chat) with the text, which names the day.
"""

from __future__ import annotations

import msgspec

from duework import App

ALL = """
select person, login, day, channel, address, text, state, error, job, promised
from streaks_message join streaks_person on streaks_person.id = person
where promised >= :since order by promised, person, channel
"""


class Promise(msgspec.Struct, frozen=True):
    """One message to one person, about one day, by one channel."""

    person: str
    login: str
    day: str
    channel: str
    address: str
    text: str
    # promised, sent, failed, unsure or cancelled.
    state: str
    error: str | None
    job: int
    promised: int


def promises(app: App, since: int = 0) -> list[Promise]:
    """Every promise since a time, oldest first; unsure ones as they are by now."""
    found = [Promise(*row) for row in app.read(ALL, since=since)]
    return [decided(app, each) for each in found]


def decided(app: App, promise: Promise) -> Promise:
    """What was unsure, as an operator may have decided it meanwhile."""
    if promise.state != "unsure":
        return promise
    for each in app.deliveries.channels(promise.job):
        if each.channel == promise.channel and each.state in {"sent", "failed"}:
            return msgspec.structs.replace(promise, state=each.state, error=each.error)
    return promise
