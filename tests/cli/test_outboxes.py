"""`duework outboxes` on messages in different states, without the code behind them."""

from __future__ import annotations

from typing import Any

import pytest

from duework import App, Outbox, Rejected, Sent
from tests.cli.conftest import HOSTILE, Duework, work


class Mail(Outbox[str]):
    async def submit(self, message: str, key: str) -> Sent | Rejected:
        return Sent() if message == "good" else Rejected(message)


@pytest.fixture
def rows(shop: App) -> dict[str, Any]:
    """A sent, a failed and a queued message."""
    mail = shop.outbox("email", Mail())
    found = {"sent": mail.enqueue("good"), "failed": mail.enqueue(HOSTILE)}
    work(shop)
    return {**found, "queued": mail.using(key="order-7", delay="1h").enqueue("later")}


def test_outboxes_are_listed_with_their_counts(rows: Any, duework: Duework) -> None:
    assert duework("outboxes", "list", "--json").document == {
        "outbox": "email",
        "queued": 1,
        "sending": 0,
        "sent": 1,
        "failed": 1,
        "unsure": 0,
        "cancelled": 0,
    }
    assert "email" in duework("outboxes", "list").out


def test_messages_are_listed_by_state(rows: Any, duework: Duework) -> None:
    [line] = duework("outboxes", "list", "email", "--state", "queued", "--json").lines
    table = duework("outboxes", "list", "email").out

    assert (line["id"], line["key"], line["message"]) == (
        str(rows["queued"].id),
        "order-7",
        "later",
    )
    assert str(rows["failed"].id) in table
    assert "\x1b[2J" not in table
    assert duework("outboxes", "list", "email", "--state", "unsure").out == (
        "no unsure messages in email\n"
    )


def test_an_empty_database_has_no_outbox(shop: App, duework: Duework) -> None:
    assert duework("outboxes", "list").out == "no outbox has messages\n"


def test_one_message_is_shown_and_its_text_cannot_move_the_cursor(
    rows: Any, duework: Duework
) -> None:
    shown = duework("outboxes", "show", rows["failed"].id)

    assert duework("outboxes", "show", rows["sent"].id, "--json").document["state"] == "sent"
    assert "\x1b[2J" not in shown.out
    assert "failed" in shown.out
    assert "{" not in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert duework("outboxes", "show", 1).code == 1


def test_messages_are_retried_and_cancelled_without_their_code(
    shop: App, rows: Any, duework: Duework
) -> None:
    failed, queued, sent = (rows[each].id for each in ("failed", "queued", "sent"))

    retried = duework("outboxes", "retry", "--failed", "email", "--json")
    cancelled = duework("outboxes", "cancel", queued, sent)
    refused = duework("outboxes", "retry", sent)

    assert retried.document == {"outbox": "email", "queued": 1}
    assert cancelled.out == f"{queued} cancelled\n{sent} sent\n"
    assert refused.code == 1
    assert shop.outboxes.get_message(failed).state == "queued"
    assert duework("outboxes", "retry", queued).out == f"{queued} queued\n"
    assert duework("outboxes", "retry").code == 78
    assert duework("outboxes", "retry", queued, "--failed", "email").code == 78
