"""From a post to the provider's own account: submit and poll in ticks, lost replies, errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from duework import facts
from systems.mailroom import board
from systems.mailroom.mail import NewMessage
from systems.mailroom.outbox import box
from systems.mailroom.posting import post
from systems.mailroom.providers.acs import operation_id, signed
from systems.mailroom.seed import promises, seed
from systems.mailroom.tests.conftest import Room

TICK = 10_000


def one(to: str = "ada@demo.example", **more: Any) -> NewMessage:
    return NewMessage(to=to, subject="Hello", text="It is on its way.", **more)


def states(room: Room) -> dict[str, int]:
    return {state: n for state, n in board.counts(room.app).items() if n}


def fault(room: Room, route: str, calls: str, do: str, **more: Any) -> None:
    room.acs.faults.set([{"route": route, "calls": calls, "do": do, **more}])


def per_tick(room: Room, route: str, start: int) -> list[int]:
    """Calls that the provider has seen in each tick of ten seconds."""
    found = Counter((call.at - start) // TICK for call in room.acs.log.of(route))
    return [found[tick] for tick in range(max(found) + 1)]


@pytest.mark.rows("002-07", "002-08", "002-11", "002-13", "002-19", "002-T7")
def test_a_mail_goes_from_queued_over_sending_to_sent_by_signed_requests(room: Room) -> None:
    moved: list[str] = []
    room.app.on_fact(
        lambda fact: moved.append(fact.state) if isinstance(fact, facts.MessageMoved) else None
    )
    message = post(room.app, "acme", "order-7", one())
    room.h.drain()  # at once: a first mail waits for no tick
    accepted = board.found(message.id)
    assert accepted.state == "sending"
    assert accepted.handle is not None
    assert accepted.handle.startswith(f"{room.acs.url}/emails/operations/")
    room.h.advance("10s")
    assert board.found(message.id).state == "sent"
    assert moved == ["queued", "sending", "sent"]
    calls = [(call.route, call.status) for call in room.acs.log.entries]
    assert calls == [("send", 202), ("poll", 200)]


def test_the_known_signatures_are_ours() -> None:
    date, host = "Tue, 14 Nov 2023 22:13:20 GMT", "https://demo.communication.azure.com"
    key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    url = f"{host}/emails:send?api-version=2023-03-31"
    body = b'{"senderAddress":"DoNotReply@demo.example"}'
    assert signed(key, "POST", url, date, body)["authorization"].endswith(
        "&Signature=PjfAUsxnx9ZdchfbpqbLYoyQyrIyCt4KZi16gJfVZxA="
    )
    assert operation_id("acme:order-7") == operation_id("acme:order-7")
    assert operation_id("acme:order-7") != operation_id("birch:order-7")


@pytest.mark.rows("002-06", "002-T4", "002-T3")
def test_replies_are_lost_and_every_mail_is_delivered_once(room: Room) -> None:
    assert seed(room.app, tenants=3, messages=200) == 200
    fault(room, "send", "3..12", "drop_after")
    room.h.advance("15m")
    assert states(room) == {"sent": 200}
    promised = [each.key for each in promises(room.app)]
    assert len(promised) == 200
    assert room.delivered() == dict.fromkeys(promised, 1)
    assert len(room.acs.log.of("send")) == 210  # ten were asked for again, under their keys
    assert seed(room.app, tenants=3, messages=200) == 0


@pytest.mark.rows("002-12", "002-15", "002-16", "002-17", "002-18", "002-T5", "002-T13")
def test_fifteen_are_submitted_and_twenty_polled_in_ten_seconds_whoever_posts(room: Room) -> None:
    start = room.h.now
    seed(room.app, tenants=3, messages=60)
    for number in range(40):
        # A steady flow of posts does not open the gate.
        post(room.app, "acme", f"more-{number}", one())
        room.h.advance("1s")
    room.h.advance("2m")
    sends, polls = per_tick(room, "send", start), per_tick(room, "poll", start)
    assert sends == [15, 15, 15, 15, 15, 15, 10]
    assert max(polls) <= 20
    assert sum(polls) == 100
    assert states(room) == {"sent": 100}
    asked = room.acs.log.calls
    room.h.advance("1d")
    assert room.acs.log.calls == asked  # nothing left to do costs nothing


def test_a_tenant_with_one_mail_does_not_wait_behind_anothers_thirty(room: Room) -> None:
    for number in range(30):
        post(room.app, "acme", f"order-{number}", one())
    small = post(room.app, "birch", "order-0", one("bob@demo.example"))
    room.h.drain()  # the first tick: fifteen in all
    assert board.found(small.id).state == "sending"
    assert board.counts(room.app, "acme")["sending"] == 14


@pytest.mark.rows("002-09", "002-T8")
def test_a_429_holds_the_whole_outbox_for_as_long_as_it_asked(room: Room) -> None:
    seed(room.app, tenants=2, messages=20)
    room.acs.set_plan("managed")  # five a minute, ten an hour
    room.h.advance("3h")
    assert states(room) == {"sent": 20}
    # Fifteen go out together; of those that come later, none comes before its time.
    refused = {call.at for call in room.acs.log.entries if call.limit == "reached"}
    assert {call.at for call in room.acs.log.over_limit()} <= refused
    assert len(refused) <= 6
    assert set(room.delivered().values()) == {1}


@pytest.mark.rows("002-14", "002-T10")
def test_an_error_is_recorded_and_the_mail_tried_again(room: Room) -> None:
    message = post(room.app, "acme", "order-7", one())
    fault(room, "send", "1..2", "status", status=500)
    room.h.drain()
    held = board.found(message.id)
    assert (held.state, held.submits) == ("queued", 1)
    [line] = board.listed(room.app)
    assert line["state"] == "queued"
    room.h.advance("2m")
    assert board.found(message.id).state == "sent"
    assert board.listed(room.app)[0]["retries"] == 2
    assert room.delivered() == {operation_id("acme:order-7"): 1}


@pytest.mark.rows("002-T4")
def test_a_500_that_comes_after_the_mail_was_taken_is_not_a_second_mail(room: Room) -> None:
    fault(room, "send", "1..3", "status", status=500, effect=True)
    message = post(room.app, "acme", "order-7", one())
    room.h.advance("5m")
    assert board.found(message.id).state == "sent"
    assert room.delivered() == {operation_id("acme:order-7"): 1}


def test_a_provider_that_answers_500_for_ever_leaves_unsure_what_it_may_have_taken(
    room: Room,
) -> None:
    fault(room, "send", "1..", "status", status=500)
    message = post(room.app, "acme", "order-7", one())
    room.h.advance("2d")
    assert board.found(message.id).state == "unsure"


@pytest.mark.rows("002-T1", "002-T10")
def test_a_mail_that_the_provider_refuses_fails_at_once_with_its_words(room: Room) -> None:
    room.acs.unlink("elsewhere.example")
    bad = post(room.app, "acme", "bad", one(sender="me@elsewhere.example"))
    good = post(room.app, "acme", "good", one())
    room.h.advance("1m")
    failed = board.found(bad.id)
    assert failed.state == "failed"
    assert failed.error == "404: The specified sender domain has not been linked."
    assert failed.submits == 1
    assert board.found(good.id).state == "sent"


@pytest.mark.rows("002-T1")
def test_fifteen_mails_that_never_work_hold_up_nobody(room: Room) -> None:
    fault(room, "send", "1..15", "status", status=401)
    for number in range(15):
        post(room.app, "acme", f"bad-{number}", one())
    room.h.drain()
    good = post(room.app, "birch", "good", one())
    room.h.advance("10s")
    # Sixteen are due, fifteen may go: those that failed come after one that did not.
    assert board.found(good.id).state == "sending"


@pytest.mark.rows("002-16", "002-T6")
@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("Failed", "Email was dropped after several attempts to deliver."),
        ("Canceled", "the provider has cancelled it"),
    ],
)
def test_what_the_provider_gives_up_has_failed_with_a_reason(
    room: Room, outcome: str, words: str
) -> None:
    room.acs.set_outcome("ada@demo.example", outcome)
    message = post(room.app, "acme", "order-7", one())
    room.h.advance("1m")
    found = board.found(message.id)
    assert (found.state, found.error) == ("failed", words)


@pytest.mark.rows("002-09", "002-T2", "002-T6")
def test_polls_that_fail_or_know_nothing_yet_stop_nothing(room: Room) -> None:
    room.acs.set_times(running=30, hidden=12)
    seed(room.app, tenants=1, messages=10)
    fault(room, "poll", "3..7", "status", status=500)
    room.h.advance("30m")
    assert states(room) == {"sent": 10}
    assert {call.status for call in room.acs.log.of("poll")} == {200, 404, 500}


@pytest.mark.rows("002-09", "002-T6")
@pytest.mark.parametrize("said", ["Running", "NotStarted", "Perhaps"])
def test_an_operation_that_runs_for_ever_is_unsure_after_a_day(room: Room, said: str) -> None:
    body, headers = f'{{"status": "{said}"}}', {"retry-after": "1800"}
    running = {"status": 200, "body": body, "headers": headers}
    fault(room, "poll", "1..", "status", **running)
    message = post(room.app, "acme", "order-7", one())
    room.h.advance("25h")
    assert len(room.acs.log.of("poll")) < 60  # it is asked when it wants to be
    found = board.found(message.id)
    assert found.state == "unsure"
    assert "has not said what became of it" in (found.error or "")


@pytest.mark.rows("002-T9")
def test_twenty_that_stay_running_do_not_keep_others_from_being_polled(room: Room) -> None:
    room.acs.set_times(running=100_000)
    seed(room.app, tenants=1, messages=40)
    room.h.advance("1m")
    room.acs.set_times(running=0)
    polled = {row.polls for row in room.app.read("select polls from mailroom_queue")}
    assert min(polled) >= 1
    room.h.advance("2m")
    assert states(room) == {"sent": 40}


@pytest.mark.rows("002-T11")
def test_an_operation_on_another_host_is_not_asked(room: Room) -> None:
    message = post(room.app, "acme", "order-7", one())
    elsewhere = {"Operation-Location": "http://169.254.169.254/emails/operations/x"}
    fault(room, "send", "1", "status", status=202, effect=True, body="{}", headers=elsewhere)
    room.h.drain()
    handle = board.found(message.id).handle
    assert handle is not None
    assert handle.startswith(room.acs.url)
    room.h.advance("10s")
    assert board.found(message.id).state == "sent"


@pytest.mark.rows("002-T14")
def test_a_provider_that_does_not_answer_is_given_up_after_a_while(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    from systems.mailroom.outbox import outbox

    client = outbox.provider.client()
    assert client._timeout == 10  # noqa: SLF001 - every request has one
    monkeypatch.setattr(client, "_timeout", 0.1)
    message = post(room.app, "acme", "order-7", one())
    fault(room, "send", "1", "never", effect=True)
    room.h.advance("1m")
    assert board.found(message.id).state == "sent"
    assert room.delivered() == {operation_id("acme:order-7"): 1}


@pytest.mark.rows("002-06", "002-T4")
def test_a_worker_that_dies_at_any_statement_loses_nothing_and_doubles_nothing(room: Room) -> None:
    crashes = 0
    for number in range(24):
        post(room.app, "acme", f"order-{number}", one())
        for _ in range(2):  # once while it submits, once while it polls
            crashes += room.h.crash_worker(at=1 + number)
            room.h.drain()
            room.h.clock.move_to(room.h.now + TICK)
    room.h.advance("5m")
    assert crashes > 30
    assert states(room) == {"sent": 24}
    assert room.delivered() == {operation_id(f"acme:order-{n}"): 1 for n in range(24)}


def test_messages_are_cancelled_and_retried(room: Room) -> None:
    room.acs.set_outcome("ada@demo.example", "Failed")
    kept = post(room.app, "acme", "kept", one())
    room.h.advance("20s")
    assert board.found(kept.id).state == "failed"
    gone = post(room.app, "acme", "gone", one())
    assert box.cancel(gone.id, "changed my mind") == "cancelled"
    room.acs.outcomes.clear()
    box.retry(kept.id)
    other = post(room.app, "acme", "kept:1", one("bob@demo.example"))
    room.h.advance("1m")
    assert [each.state for each in promises(room.app)] == ["sent", "sent"]
    # The provider had the first one and gave it up: the second has a key that no tenant can give.
    again = "acme:kept:-1"
    assert [each.key for each in promises(room.app)] == [
        operation_id(again),
        operation_id("acme:kept:1"),
    ]
    assert set(room.delivered().values()) == {1}
    assert room.delivered().keys() == set(map(operation_id, ["acme:kept", again, other.key]))
    # Each log has what was done for its message: two rounds here, one there.
    stories = [board.story(board.found(each.id)) for each in (kept, other)]
    assert [[line["what"] for line in each] for each in stories] == [
        ["was asked"] * 2,
        ["was asked"],
    ]


@pytest.mark.rows("002-X2")
def test_what_was_sent_is_kept_for_a_week_and_what_failed_until_somebody_acts(room: Room) -> None:
    room.acs.set_outcome("bob@demo.example", "Failed")
    post(room.app, "acme", "good", one())
    post(room.app, "acme", "bad", one("bob@demo.example"))
    waiting = board.oldest(room.app)
    assert waiting == room.h.now
    room.h.advance("6d")
    assert states(room) == {"sent": 1, "failed": 1}
    assert board.oldest(room.app) is None
    assert board.success(board.counts(room.app)) == 50
    room.h.advance("2d")
    room.app.outboxes.prune()  # as the worker's housekeeping does
    assert states(room) == {"failed": 1}
    room.acs.outcomes.clear()
    assert board.retry_failed(room.app) == 1
    room.h.advance("1m")
    assert states(room) == {"sent": 1}


@pytest.mark.rows("002-T15")
def test_no_count_goes_over_all_that_was_ever_sent(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(room.app, tenants=2, messages=30)
    monkeypatch.setattr(board, "BOUND", 10)
    assert board.counts(room.app)["queued"] == 10
    assert board.counts(room.app, "acme")["queued"] == 10
    if room.app.url.startswith("sqlite"):
        plan = room.app.read("explain query plan " + board._COUNT, tenant="", status="", bound=1)  # noqa: SLF001
        assert any("USING" in str(row[3]) and "INDEX" in str(row[3]) for row in plan)
