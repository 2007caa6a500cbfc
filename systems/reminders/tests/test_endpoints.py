"""Receivers of webhooks: secrets, rotation, and what no webhook may reach."""

from __future__ import annotations

import pytest

from duework import Conflict, NotFound, UsageError
from duework.testing import Harness
from systems.reminders import endpoints, log
from systems.reminders.tests.conftest import Hook, remind, use
from systems.twins import Twins


@pytest.mark.rows("003-X3")
def test_after_a_rotation_both_secrets_sign_for_a_day(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    remind(endpoint=hook.id, cron="0 * * * *")
    made = endpoints.rotate(hook.id)

    h.advance("1h")
    assert len(t.hooks.ledger.of("delivered")) == 1
    t.hooks.endpoint("ada", "standard", [made.secret])
    h.advance("1h")
    assert len(t.hooks.ledger.of("delivered")) == 2
    t.hooks.endpoint("ada", "standard", [hook.secret])
    h.advance("1d")

    # The old one was good for another 22 hours.
    assert len(t.hooks.ledger.of("delivered")) == 2 + 21
    assert len(t.hooks.ledger.of("forged")) > 0


CLOSED = [
    "http://169.254.169.254/latest/meta-data",
    "http://10.0.0.1/hook",
    "http://[::1]/hook",
    "http://localhost/hook",
    "ftp://example.com/hook",
    "http://ada@example.com/hook",
    "not a url",
    "http://example.com/" + "a" * 1000,
]


@pytest.mark.rows("003-X3")
def test_a_url_that_leads_into_our_own_network_is_refused(h: Harness) -> None:
    for url in CLOSED:
        with pytest.raises(UsageError):
            endpoints.create("ada", url)

    assert endpoints.every() == []


@pytest.mark.rows("003-X3")
def test_with_a_real_provider_loopback_is_refused_when_it_is_called_too(
    h: Harness, t: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = Hook(t)
    use(monkeypatch, allow=())
    remind(endpoint=hook.id)

    h.advance("1h")

    assert t.hooks.log.entries == []
    [fire] = log.failed()
    assert "not public" in (fire.error or "")


def test_a_secret_is_sealed_and_told_once(h: Harness, t: Twins) -> None:
    hook = Hook(t)

    assert not hasattr(endpoints.find(hook.id), "secret")
    assert h.app.secrets.open(f"reminders:endpoint:{hook.id}") == hook.secret
    endpoints.delete(hook.id)
    assert h.app.secrets.names("reminders:") == []


def test_an_endpoint_in_use_stays_and_a_name_is_taken_once(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    remind(endpoint=hook.id)

    with pytest.raises(Conflict):
        endpoints.delete(hook.id)
    with pytest.raises(Conflict):
        Hook(t)
    with pytest.raises(NotFound):
        endpoints.find("ep_none")


def test_one_that_was_switched_off_is_switched_on_with_another_address(
    h: Harness, t: Twins
) -> None:
    hook = Hook(t)
    hook.answers(410)
    remind(endpoint=hook.id)
    h.advance("1h")
    assert endpoints.find(hook.id).state == "off"

    endpoints.change(hook.id, url=f"{t.hooks.url}/hook/elsewhere")
    log.redrive_all()
    h.drain()

    assert [each["endpoint"] for each in t.hooks.ledger.of("delivered")] == ["elsewhere"]
