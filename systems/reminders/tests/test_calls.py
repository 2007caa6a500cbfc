"""What receivers answer, what becomes of those that fail, and replays."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from duework import Conflict, UsageError
from duework.testing import Harness
from systems.reminders import attempts, book, channels, endpoints, log
from systems.reminders.promises import promises
from systems.reminders.rules import NewReminder
from systems.reminders.tests.conftest import Hook, remind, use
from systems.reminders.tests.test_web import Web
from systems.twins import Twins


def told(t: Twins) -> list[str]:
    return [each.body["subject"] for each in t.resend.mails.values()]


def test_each_call_is_listed_with_its_answer_up_to_two_kibibytes(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(503, 200)
    remind(endpoint=hook.id)

    h.advance("2h")

    last, first = attempts.recent()
    assert [(first.status, first.kind), (last.status, last.kind)] == [(503, "send"), (200, "send")]
    assert first.webhook_id == last.webhook_id
    assert last.answer is not None
    assert len(attempts.cut("é" * 5000).encode()) <= 2048
    assert attempts.cut("a\0b") == "a\ufffdb"


def test_two_reminders_whose_ids_differ_in_a_dot_are_two_for_their_receiver(
    h: Harness, t: Twins
) -> None:
    hook = Hook(t)
    at = datetime.fromtimestamp(h.now / 1000 + 3600, UTC).isoformat()
    for name in ("pay.day", "pay-day", "pay_day"):
        book.create(NewReminder(title=name, endpoint=hook.id, at=at), id_=name)

    h.advance("2h")

    arrived = t.hooks.ledger.counts("id")
    assert sorted(arrived.values()) == [1, 1, 1]
    assert {each.key for each in promises(h.app)} == arrived.keys()


def test_a_call_that_an_earlier_version_began_keeps_the_id_that_it_had(
    h: Harness, t: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = Hook(t)
    hook.answers(503, 200)
    at = datetime.fromtimestamp(h.now / 1000 + 3600, UTC).isoformat()
    with monkeypatch.context() as earlier:
        earlier.setattr("systems.reminders.fire.webhook_id", lambda key: key.replace(".", "-"))
        made = book.create(NewReminder(title="x", endpoint=hook.id, at=at), id_="pay.day")
        h.advance("1h")
    h.advance("1h")

    calls = attempts.recent()
    assert [each.status for each in calls] == [200, 503]
    assert {each.webhook_id for each in calls} == {
        f"schedule:reminders:pay-day@{made.next_fire_at}:webhook"
    }
    assert asyncio.run(channels.replay(log.recent()[0].job)) == 200
    assert t.hooks.ledger.counts("id", "delivered") == {calls[0].webhook_id: 2}


def test_an_endpoint_that_fails_again_and_again_is_warned_of_and_then_switched_off(
    h: Harness, t: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, disable_after=6)
    made = endpoints.create("ada", f"{t.hooks.url}/hook/ada", contact="ops@demo.example")
    t.hooks.answer("ada", [500])
    remind(endpoint=made.id, cron="0 * * * *")

    h.advance("1h 30m")  # three calls
    found = endpoints.find(made.id)
    assert (found.state, found.failures) == ("on", 3)
    assert found.warned_at is not None
    assert told(t) == ["Webhooks: ada does not answer"]
    h.advance("2h")

    found = endpoints.find(made.id)
    assert (found.state, found.failures) == ("off", 6)
    assert "6 calls failed one after the other, the last with 500" in (found.reason or "")
    assert told(t)[1:] == ["Webhooks: ada is switched off"]
    calls = len(attempts.recent())
    h.advance("1d")
    assert len(attempts.recent()) == calls
    assert endpoints.change(made.id).failures == 0


def test_one_call_that_goes_well_starts_the_count_again(
    h: Harness, t: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, disable_after=4)
    hook = Hook(t)
    hook.answers(500, 500, 200, 500, 500, 200)
    remind(endpoint=hook.id, cron="0 */2 * * *")

    h.advance("5h")

    found = endpoints.find(hook.id)
    assert (found.state, found.failures, found.warned_at) == ("on", 0, None)


def test_a_replay_has_the_stored_body_the_same_id_and_the_secret_of_today(
    h: Harness, t: Twins
) -> None:
    hook = Hook(t)
    made = remind(endpoint=hook.id, cron="0 9 * * *")
    h.advance("61m")
    [fire] = log.recent()
    book.edit(made.id, _title("Another title"))
    secret = endpoints.rotate(hook.id).secret
    t.hooks.endpoint("ada", "standard", [secret])
    endpoints.change(hook.id, on=False)

    status = asyncio.run(channels.replay(fire.job))

    assert status == 200
    first, second = t.hooks.ledger.entries
    assert first["id"] == second["id"]
    assert attempts.recent()[0].kind == "replay"
    assert endpoints.find(hook.id).state == "off"
    assert fire.body is not None
    assert "Call the bank" in fire.body


def _title(text: str) -> Any:
    from systems.reminders.rules import Change

    return Change(title=text)


def test_a_replay_that_fails_changes_nothing_about_its_endpoint(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(200, 500, 410)
    remind(endpoint=hook.id)
    h.advance("61m")
    [fire] = log.recent()

    for status in (500, 410):
        assert asyncio.run(channels.replay(fire.job)) == status

    found = endpoints.find(hook.id)
    assert (found.state, found.failures) == ("on", 0)


def test_a_fire_without_a_webhook_has_nothing_to_replay(h: Harness, t: Twins) -> None:
    remind()
    h.advance("61m")

    with pytest.raises(Conflict):
        asyncio.run(channels.replay(log.recent()[0].job))


def test_a_contact_is_an_address(h: Harness, t: Twins) -> None:
    with pytest.raises(UsageError):
        endpoints.create("ada", f"{t.hooks.url}/hook/ada", contact="nobody")


def test_calls_and_replays_are_there_for_programs(h: Harness, t: Twins) -> None:
    hook, web = Hook(t), Web(h)
    remind(endpoint=hook.id)
    h.advance("61m")

    job = log.recent()[0].job
    assert web.call("POST", f"/api/reminder-fires/{job}/replay", {}).json() == {"answer": "200"}
    listed = web.call("GET", f"/api/reminder-calls?endpoint={hook.id}").json()
    assert [each["kind"] for each in listed] == ["replay", "send"]
    assert web.call("POST", "/api/reminder-fires/7/replay", {}).status_code == 404
