"""From a post to the provider's own account: submit and poll in ticks, lost replies, errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from duework import Conflict
from systems.mailroom import board
from systems.mailroom.mail import NewMessage
from systems.mailroom.outbox import box
from systems.mailroom.posting import post
from systems.mailroom.seed import promises, seed
from systems.mailroom.tests.conftest import Room


def one(to: str = "ada@demo.example", **more: Any) -> NewMessage:
    return NewMessage(to=to, subject="Hello", text="It is on its way.", **more)


def states(room: Room) -> dict[str, int]:
    return {state: n for state, n in board.counts(room.app).items() if n}


@pytest.mark.rows("002-07", "002-08", "002-13", "002-19", "002-T7")
def test_a_mail_goes_from_queued_over_sending_to_sent_by_signed_requests(room: Room) -> None:
    message = post(room.app, "acme", "order-7", one())
    assert message.state == "queued"
    room.h.drain()
    accepted = board.found(message.id)
    assert accepted.state == "sending"
    assert accepted.handle is not None
    assert accepted.handle.startswith(f"{room.acs.url}/emails/operations/")
    room.h.advance("10s")
    assert board.found(message.id).state == "sent"
    assert [(call.route, call.status) for call in room.acs.log.entries] == [
        ("send", 202),
        ("poll", 200),
    ]


@pytest.mark.rows("002-06", "002-T4")
def test_replies_are_lost_and_every_mail_is_delivered_once(room: Room) -> None:
    assert seed(room.app, tenants=3, messages=200) == 200
    room.acs.faults.set([{"route": "send", "calls": "3..12", "do": "drop_after"}])
    room.h.advance("15m")
    assert states(room) == {"sent": 200}
    promised = [each.key for each in promises(room.app)]
    assert room.delivered() == dict.fromkeys(promised, 1)
    assert room.acs.log.calls > 400
    assert seed(room.app, tenants=3, messages=200) == 0
