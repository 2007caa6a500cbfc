"""Deliveries by HTTP: channels that may have arrived or not, and what is decided about one."""

from __future__ import annotations

from collections.abc import Callable

from duework.shapes.deliveries.channels import Sending
from duework.web.api.operation import (
    FIRST_ID,
    Ask,
    acts,
    cursor_of,
    line_of,
    noted,
    place_of,
    reads,
)
from duework.web.api.shape_types import ChannelLine
from duework.web.api.types import Because, Listed, Nothing, PageQuery


def unsure(ask: Ask) -> Listed[ChannelLine]:
    """Channels that are unsure, those of the newest deliveries first."""
    wanted: PageQuery = ask.query
    before = place_of(wanted.cursor, int, FIRST_ID)
    found = ask.app.deliveries.unsure(before=before, limit=wanted.limit)
    jobs = {job for job, _ in found}
    more = cursor_of(min(jobs)) if len(jobs) == wanted.limit else None
    return Listed([_line(job, each) for job, each in found], more)


def channels(ask: Ask) -> Listed[ChannelLine]:
    """What became of each channel of a delivery."""
    job = ask.app.job(ask.id("job")).id
    return _lines(job, ask.app.deliveries.channels(job))


def _lines(job: int, found: list[Sending]) -> Listed[ChannelLine]:
    return Listed([_line(job, each) for each in found], None)


def _line(job: int, seen: Sending) -> ChannelLine:
    return line_of(ChannelLine, seen, job=str(job))


def resend(ask: Ask) -> Listed[ChannelLine]:
    """Send it once more, with the same key."""
    return _decide(ask, "resend", ask.app.deliveries.resend)


def call_sent(ask: Ask) -> Listed[ChannelLine]:
    """Somebody has looked, and it has arrived."""
    return _decide(ask, "call sent", ask.app.deliveries.call_sent)


def give_up(ask: Ask) -> Listed[ChannelLine]:
    """It has failed, and is not sent again."""
    words = ask.body.why or f"given up by {ask.who.name}"
    return _decide(
        ask, "give up", lambda job, channel: ask.app.deliveries.give_up(job, channel, words)
    )


def _decide(ask: Ask, what: str, act: Callable[[int, str], list[Sending]]) -> Listed[ChannelLine]:
    job, channel = ask.id("job"), ask.path["channel"]
    target = f"channel {channel} of job {job}"
    return _lines(job, noted(ask, what, target, lambda: act(job, channel)))


OPERATIONS = (
    reads("/deliveries/unsure", unsure, Listed[ChannelLine], PageQuery),
    reads("/deliveries/{job}", channels, Listed[ChannelLine]),
    acts("/deliveries/{job}/{channel}/resend", resend, Listed[ChannelLine], Nothing),
    acts("/deliveries/{job}/{channel}/sent", call_sent, Listed[ChannelLine], Nothing),
    acts("/deliveries/{job}/{channel}/give-up", give_up, Listed[ChannelLine], Because),
)
