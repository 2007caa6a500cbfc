"""`preparing()`: as long as nothing of a send has left, nothing can be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from duework import Channel, Outbox, Sent, http, preparing
from duework.testing import Harness
from tests.support.receiver import Receiver

Send = Callable[[], None]


def lost_before() -> None:
    with preparing():
        raise ConnectionResetError("while connecting")


def lost_after() -> None:
    with preparing():
        pass
    raise ConnectionResetError("after the request")


def lost_at_the_second() -> None:
    """The first host does not answer; the request to the second one is lost."""
    try:
        lost_before()
    except ConnectionResetError:
        raise ConnectionResetError("after the request") from None


def lost_after_an_earlier_request() -> None:
    client = http.Client(URL[0])
    with preparing():
        client.call("POST", "/", json="hi")
        raise ConnectionResetError("after the request")


URL: list[str] = []
CASES = [
    (lost_before, "sent"),
    (lost_after, "unsure"),
    (lost_at_the_second, "unsure"),
    (lost_after_an_earlier_request, "unsure"),
]


@pytest.mark.parametrize(("loses", "state"), CASES)
def test_a_message_is_unsure_only_if_it_may_have_left(
    harness: Harness, loses: Send, state: str
) -> None:
    plan = [loses, lambda: None]

    class Mail(Outbox[str]):
        def submit(self, message: str, key: str) -> Sent:
            plan.pop(0)()
            return Sent()

    with Receiver() as there:
        URL[:] = [there.url]
        mail = harness.app.outbox("mail", Mail())
        row = mail.enqueue("hi")
        harness.advance("1m")

    assert mail.get_message(row.id).state == state


@pytest.mark.parametrize(("loses", "state"), CASES)
def test_a_channel_is_unsure_only_if_it_may_have_left(
    harness: Harness, loses: Send, state: str
) -> None:
    plan = [loses, lambda: None]

    def send(text: str) -> None:
        plan.pop(0)()

    @harness.app.delivery(channels={"plain": Channel(send)})
    def letter(text: str) -> dict[str, Any]:
        return {"plain": text}

    with Receiver() as there:
        URL[:] = [there.url]
        job = letter.enqueue("hi")
        harness.advance("2m")

    assert [each.state for each in letter.channels(job)] == [state]


def test_a_request_in_the_block_leaves_when_its_first_byte_goes_out(harness: Harness) -> None:
    class Mail(Outbox[str]):
        retries = 1

        async def submit(self, message: str, key: str) -> Sent:
            with preparing():
                await client.post("/", json="hi")
            return Sent()

    with Receiver() as there:
        there.then("drop")
        client = http.Client(there.url)
        mail = harness.app.outbox("mail", Mail())
        row = mail.enqueue("hi")
        harness.advance("1m")

    assert mail.get_message(row.id).state == "unsure"
    assert len(there.requests) == 1


def test_outside_of_a_send_it_says_nothing() -> None:
    with preparing():
        pass
