"""Messages through a notification proxy: the same promises, by another way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from starlette.responses import JSONResponse, Response

from duework import Secret, UsageError
from systems.streaks.part import part
from systems.streaks.settings import Settings
from systems.streaks.tests.conftest import Following, Place, settings_for
from systems.twins.kit.app import Call, Door, Twin
from systems.twins.kit.serve import Served


class Proxy(Twin):
    """A proxy that says what it is told to say, and keeps what it has sent."""

    name = "proxy"
    about: ClassVar = "a notification proxy"

    def make_doors(self) -> list[Door]:
        return [Door("send", "POST", "/send-notification", self._send)]

    def start_over(self) -> None:
        self.secret = "hop"
        self.answers: list[dict[str, Any]] = []

    def _send(self, call: Call) -> Response:
        if call.headers.get("x-api-secret") != self.secret:
            return JSONResponse({"error": "Unauthorized"}, 401)
        answer = self.answers.pop(0) if self.answers else {"status": 200}
        if answer["status"] == 200:
            self.ledger.add("sent", call.now, **call.json())
        return JSONResponse(answer)


@pytest.fixture(scope="module")
def running(following: Following) -> Iterator[Proxy]:
    proxy = Proxy(following)
    with Served([proxy]):
        yield proxy


@pytest.fixture
def proxy(place: Place, running: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    running.reset()
    given = settings_for(place.t, proxy_url=running.url, proxy_secret=Secret("hop"))
    monkeypatch.setattr(part, "_settings", given)
    return running


@pytest.mark.rows("000-X6", "000-01")
def test_with_a_proxy_every_message_goes_through_it_and_none_directly(
    place: Place, proxy: Proxy
) -> None:
    place.person()
    place.h.advance("15m")

    sent = {entry["type"]: entry for entry in proxy.ledger.of("sent")}
    text = place.app.read("select message from streaks_day")[0].message
    assert set(sent) == {"discord", "telegram"}
    assert sent["discord"]["webhook"] == "1100000000000000001/token-001"
    assert (sent["telegram"]["chatId"], sent["telegram"]["message"]) == ("555001", text)
    assert len(proxy.ledger.of("sent")) == 2
    assert set(place.states().values()) == {"sent"}
    assert place.received() == {}


@pytest.mark.rows("000-X6")
def test_what_the_service_said_counts_as_if_it_had_been_asked_directly(
    place: Place, proxy: Proxy
) -> None:
    person = place.person(telegram_token=None, telegram_chat=None)
    proxy.answers = [{"status": 429, "retryAfter": 90}, {"status": 500}]
    place.h.advance("20m")
    assert place.states() == {("user-001", "discord"): "sent"}
    assert len(proxy.ledger.of("sent")) == 1

    proxy.answers = [{"status": 404, "error": "Unknown Webhook"}]
    place.jump(24)
    assert place.row(person.login).discord_problem == "Discord: Unknown Webhook"
    assert len(proxy.ledger.of("sent")) == 1


@pytest.mark.rows("000-X6")
def test_trouble_of_the_proxy_is_not_the_persons(place: Place, proxy: Proxy) -> None:
    place.person(telegram_token=None, telegram_chat=None)
    proxy.secret = "another"
    place.h.advance("12m")
    assert place.row("user-001").discord_problem is None
    assert proxy.ledger.of("sent") == []

    proxy.secret = "hop"
    place.h.advance("1h")
    assert place.states() == {("user-001", "discord"): "sent"}
    assert len(proxy.ledger.of("sent")) == 1


@pytest.mark.rows("000-X6", "000-T17")
@pytest.mark.parametrize("how", ["drop_after", "malformed"])
def test_a_reply_of_the_proxy_that_is_lost_is_unsure_and_not_sent_again(
    place: Place, proxy: Proxy, how: str
) -> None:
    place.person(telegram_token=None, telegram_chat=None)
    proxy.faults.set([{"route": "send", "calls": "1", "do": how}])
    place.h.advance("2h")

    assert place.states() == {("user-001", "discord"): "unsure"}
    assert len(proxy.ledger.of("sent")) <= 1
    assert proxy.log.calls == 1


@pytest.mark.rows("000-X6")
def test_tokens_do_not_go_through_a_hop_that_is_not_encrypted_or_asks_for_no_secret() -> None:
    with pytest.raises(UsageError, match="https"):
        Settings(proxy_url="http://proxy.example", proxy_secret=Secret("x"))
    with pytest.raises(UsageError, match="proxy_secret"):
        Settings(proxy_url="https://proxy.example")
    assert Settings(proxy_url="https://proxy.example", proxy_secret=Secret("x")).proxy_url
