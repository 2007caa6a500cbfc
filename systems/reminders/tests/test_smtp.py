"""Mail by SMTP, which knows no key: what may have arrived is left alone and shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duework import App, Channel
from duework.testing import Harness
from systems.reminders import log
from systems.reminders.channels import email
from systems.reminders.part import settings
from systems.reminders.providers import smtp
from systems.reminders.tests.conftest import remind, use
from systems.twins import Twins, twins


@pytest.fixture
def t(h: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Twins]:
    with twins(h.clock, "smtp") as running:
        host, port = running.smtp.address
        use(monkeypatch, mail="smtp", smtp_url=f"smtp://{host}:{port}")
        yield running


def test_a_mail_goes_out_once_under_an_id_of_its_own(h: Harness, t: Twins) -> None:
    remind(title="Zähne putzen")

    h.advance("61m")

    [fire] = log.recent()
    assert fire.outcome == "success"
    assert t.smtp.ledger.counts("key") == {smtp.message_id(f"{fire.key}:email"): 1}


@pytest.mark.parametrize(("status", "outcomes"), [(450, ["success"]), (550, ["failed"])])
def test_a_mail_that_is_refused_for_now_is_tried_again_and_one_for_good_is_not(
    h: Harness, t: Twins, status: int, outcomes: list[str]
) -> None:
    t.smtp.faults.set([{"route": "rcpt", "calls": "1", "do": "status", "status": status}])
    remind()

    h.advance("63m")

    assert [each.outcome for each in log.recent()] == outcomes


def test_a_mail_whose_answer_was_lost_is_unsure_and_never_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("sqlite://")
    use(monkeypatch, mail="smtp")

    @app.delivery(channels={"email": Channel(email, unsure=settings().unsure)}, retries=3)
    def greet() -> dict[str, dict[str, str]]:
        return {"email": {"to": "ada@demo.example", "subject": "Hi", "text": "Hi"}}

    with Harness(app) as h, twins(h.clock, "smtp") as t:
        host, port = t.smtp.address
        use(monkeypatch, smtp_url=f"smtp://{host}:{port}")
        t.smtp.faults.set([{"route": "data", "calls": "1", "do": "drop_after"}])
        job = greet.enqueue()
        h.advance("2h")
        assert [each.state for each in greet.channels(job)] == ["unsure"]
        assert list(t.smtp.ledger.counts("key").values()) == [1]
