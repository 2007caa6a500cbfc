"""`duework deliveries` on a channel that is unsure, without the code behind it."""

from __future__ import annotations

import pytest

from duework import App, Channel
from tests.cli.conftest import HOSTILE, Duework, work


@pytest.fixture
def job(shop: App) -> int:
    """A delivery of which nobody can tell whether it was sent."""

    async def lost(payload: str) -> None:
        raise TimeoutError(payload)

    @shop.delivery(channels={"email": Channel(lost)})
    def reminder() -> dict[str, str]:
        return {"email": HOSTILE}

    made = reminder.enqueue()
    work(shop)
    return int(made.id)


def test_what_is_unsure_is_listed_and_its_text_cannot_move_the_cursor(
    job: int, duework: Duework
) -> None:
    [line] = duework("deliveries", "list", "--json").lines
    table = duework("deliveries", "list").out

    assert (line["job"], line["channel"], line["state"], line["sends"]) == (
        *(str(job), "email", "unsure"),
        1,
    )
    assert str(job) in table
    assert "\x1b[2J" not in table
    assert duework("deliveries", "show", job).out == table


def test_nothing_is_listed_where_nothing_is_unsure(shop: App, duework: Duework) -> None:
    assert duework("deliveries", "list").out == "no channel is unsure\n"


@pytest.mark.parametrize(
    ("verb", "state"), [("resend", "sending"), ("sent", "sent"), ("give-up", "failed")]
)
def test_an_operator_decides_once(job: int, duework: Duework, verb: str, state: str) -> None:
    assert duework("deliveries", verb, job, "email").out == f"{job} email {state}\n"

    again = duework("deliveries", verb, job, "email", "--json")
    assert again.code == 1
    assert f"is {state}" in again.document["error"]["message"]


def test_what_is_not_there_is_said(job: int, duework: Duework) -> None:
    assert "has no channel" in duework("deliveries", "resend", job, "fax").err
    assert "there is no job" in duework("deliveries", "show", 7).err
