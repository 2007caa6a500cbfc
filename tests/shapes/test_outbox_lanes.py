"""Lanes of an outbox: tenants take turns, each may have a pace of its own, and is looked at alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from duework import (
    Accepted,
    Adaptive,
    App,
    Outbox,
    Pending,
    Rate,
    Sent,
    Throttled,
    Tick,
    UsageError,
)
from duework.testing import Harness


class Mail(Outbox[str]):
    """Notes whose message it was given."""

    backoff = "10s"

    def __init__(self, **more: Any) -> None:
        self.submits: list[str] = []
        self.polls: list[str] = []
        self.throttled: set[str] = set()
        for name, value in more.items():
            setattr(self, name, value)

    async def submit(self, message: str, key: str) -> Accepted | Sent:
        if message in self.throttled:
            self.throttled.discard(message)
            raise Throttled("30s")
        self.submits.append(message)
        return Accepted(key)

    async def poll(self, handle: str, message: str) -> Pending | Sent:
        self.polls.append(message)
        return Sent()


def send(mail: Any, tenant: str, count: int = 1) -> None:
    mail.using(lane=tenant).enqueue_many([tenant] * count)


def test_one_mail_behind_thirty_of_another_tenant_goes_out_with_the_first_tick(
    harness: Harness,
) -> None:
    there = Mail(submit_pace=Tick(15, "10s"), poll_pace=Tick(20, "10s"))
    mail = harness.app.outbox("email", there)
    send(mail, "t1", 30)
    send(mail, "t2")

    harness.drain()
    first = dict(Counter(there.submits))
    harness.advance("10s")

    assert first == {"t1": 14, "t2": 1}
    assert dict(Counter(there.submits)) == {"t1": 29, "t2": 1}
    assert there.polls.count("t2") == 1
    harness.advance("10m")
    assert mail.counts()["sent"] == 31


def test_a_tick_per_lane_is_each_tenants_own(harness: Harness) -> None:
    there = Mail(submit_pace=Tick(2, "10s", per="lane"))
    mail = harness.app.outbox("email", there)
    send(mail, "t1", 5)
    send(mail, "t2", 1)
    mail.enqueue_many(["nobody"] * 3)

    harness.drain()
    assert dict(Counter(there.submits)) == {"t1": 2, "t2": 1, "nobody": 2}
    harness.advance("10s")
    assert dict(Counter(there.submits)) == {"t1": 4, "t2": 1, "nobody": 3}
    harness.advance("10s")

    assert dict(Counter(there.submits)) == {"t1": 5, "t2": 1, "nobody": 3}


def test_a_rate_per_lane_is_each_tenants_own_and_shown_by_its_name(harness: Harness) -> None:
    there = Mail(submit_pace=Rate("6/1m", per="lane", burst=1))
    mail = harness.app.outbox("email", there)
    send(mail, "t1", 4)
    send(mail, "t2", 2)

    harness.drain()
    assert dict(Counter(there.submits)) == {"t1": 1, "t2": 1}
    names = {each.name: each.used for each in harness.app.paces("email.submit")}
    assert names == {"email.submit:rate[t1]": 1, "email.submit:rate[t2]": 1}
    harness.advance("1m")

    assert dict(Counter(there.submits)) == {"t1": 4, "t2": 2}


def test_a_named_pace_per_lane_is_shared_by_the_outboxes_that_have_it(harness: Harness) -> None:
    shared = Tick(3, "10s", per="lane", name="tenants")
    boxes = [harness.app.outbox(name, Mail(submit_pace=shared)) for name in ("email", "sms")]
    for box in boxes:
        send(box, "t1", 3)
        send(box, "t2", 1)

    harness.drain()

    sent = [len(box.messages("queued", lane="t1")) for box in boxes]
    assert sum(sent) == 3
    assert [len(box.messages("queued", lane="t2")) for box in boxes] == [0, 0]


def test_an_upstream_that_throttles_one_lane_holds_the_others_too(harness: Harness) -> None:
    there = Mail(submit_pace=Tick(2, "10s", per="lane"))
    mail = harness.app.outbox("email", there)
    send(mail, "t2")
    harness.advance("1m")
    there.throttled.add("t1")
    send(mail, "t1")
    harness.drain()
    send(mail, "t2")

    harness.advance("25s")
    assert there.submits == ["t2"]
    harness.advance("10s")

    assert sorted(there.submits) == ["t1", "t2", "t2"]


def test_messages_are_listed_by_lane_by_state_and_all_together(harness: Harness) -> None:
    there = Mail(submit_pace=Tick(3, "10s"))
    mail = harness.app.outbox("email", there)
    other = harness.app.outbox("other", Mail())
    send(mail, "t1", 3)
    send(mail, "t2", 2)
    send(other, "t1", 4)
    mail.enqueue("nobody")
    harness.drain()

    everything = mail.messages()
    of_t1 = mail.messages(lane="t1")
    queued = mail.messages("queued", lane="t1")

    assert [each.id for each in everything] == sorted([e.id for e in everything], reverse=True)
    assert dict(Counter(each.lane for each in everything)) == {"t1": 3, "t2": 2, "": 1}
    assert [(each.lane, each.outbox) for each in of_t1] == [("t1", "email")] * 3
    assert [each.id for each in of_t1] == sorted([each.id for each in of_t1], reverse=True)
    assert [each.state for each in queued] == ["queued", "queued"]
    page = mail.messages(lane="t1", limit=2)
    assert page == of_t1[:2]
    assert mail.messages(lane="t1", before=page[-1].id) == of_t1[2:]
    assert mail.messages(state=None, lane="t3") == []
    assert harness.app.outboxes.messages("email", lane="t1") == of_t1


def test_what_is_mistaken_about_lanes_is_refused(harness: Harness) -> None:
    app: App = harness.app
    mail = app.outbox("email", Mail())

    with pytest.raises(UsageError, match="leave it out"):
        mail.messages(lane="")
    with pytest.raises(UsageError, match="queued, sending"):
        mail.messages("quened")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="per= of a tick is 'lane'"):
        Tick(15, "10s", per="tenant")
    with pytest.raises(UsageError, match="lanes of an outbox: work has none"):

        @app.task(pace=Tick(15, "10s", per="lane"))
        async def work(lane: str) -> None: ...

    with pytest.raises(UsageError, match="no argument 'lane'"):

        @app.task(pace=Rate("5/1m", per="lane"))
        async def other() -> None: ...

    with pytest.raises(UsageError, match="queue"):
        app.queue("mail", pace=Tick(15, "10s", per="lane"))
    with pytest.raises(TypeError):
        Adaptive(per="lane")  # type: ignore[call-arg]


def test_a_rate_per_an_argument_that_is_called_lane_stays_one_of_that_argument(
    harness: Harness,
) -> None:
    ran: list[str] = []

    @harness.app.task(pace=Rate("6/1m", per="lane", burst=1))
    async def work(lane: str) -> None:
        ran.append(lane)

    work.enqueue_many([("a",), ("a",), ("b",)])
    harness.drain()

    assert sorted(ran) == ["a", "b"]
