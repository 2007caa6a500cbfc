"""The API and the pages, as programs and browsers see them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from duework.testing import Harness
from duework.web.tokens import Tokens
from systems.reminders import book, endpoints, log
from systems.reminders.tests.conftest import START, Hook, remind
from systems.twins import Twins

HERE = "http://localhost"


class Web:
    """A program with a token, and a browser that is signed in with it."""

    def __init__(self, h: Harness, scope: str = "operate") -> None:
        self.secret = Tokens(h.app).add(f"test-{scope}", scope, None)
        self.client = TestClient(h.app.asgi(), base_url=HERE, follow_redirects=False)
        self.client.post("/login", data={"token": self.secret}, headers={"origin": HERE})
        self.program = TestClient(h.app.asgi(), base_url=HERE, follow_redirects=False)

    def call(self, method: str, path: str, json: Any = None, **options: Any) -> Any:
        headers = {"authorization": f"Bearer {self.secret}"}
        return self.program.request(method, path, json=json, headers=headers, **options)

    def page(self, path: str) -> str:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        assert "style=" not in answer.text
        return str(answer.text)

    def submit(self, path: str, file: tuple[str, bytes] | None = None, **data: str) -> str:
        """Post a form of a page, and what the page says then."""
        key = re.search(r'name="form" value="(\w+)"', self.client.get("/menu").text)
        assert key
        data |= {"form": key[1], "back": "/reminders/"}
        files = {} if file is None else {"file": file}
        answer = self.client.post(path, data=data, files=files, headers={"origin": HERE})
        assert answer.status_code in {303, 200}, answer.text
        return str(self.client.get("/reminders/").text)


GOOD = {"title": "Stretch", "cron": "0 9 * * *", "email": "ada@demo.example"}

# Method, path and body, and the answer's status; {id} is a reminder, {job} a fire that went well.
BAD: list[tuple[str, str, Any, int]] = [
    ("POST", "/api/reminders", {}, 422),
    ("POST", "/api/reminders", [], 422),
    ("POST", "/api/reminders", {**GOOD, "title": ""}, 422),
    ("POST", "/api/reminders", {**GOOD, "title": "x" * 201}, 422),
    ("POST", "/api/reminders", {**GOOD, "title": 7}, 422),
    ("POST", "/api/reminders", {**GOOD, "colour": "red"}, 422),
    ("POST", "/api/reminders", {**GOOD, "count": 0}, 422),
    ("POST", "/api/reminders", {**GOOD, "missed": "never"}, 422),
    ("POST", "/api/reminders", {**GOOD, "channels": []}, 400),
    ("POST", "/api/reminders", {**GOOD, "channels": ["fax"]}, 400),
    ("POST", "/api/reminders", {**GOOD, "channels": ["webhook"]}, 400),
    ("POST", "/api/reminders", {**GOOD, "endpoint": "ep_none"}, 400),
    ("POST", "/api/reminders", {**GOOD, "email": "ada"}, 400),
    ("POST", "/api/reminders", {**GOOD, "title": "a\r\nbcc: eve@x.example"}, 400),
    ("POST", "/api/reminders", {**GOOD, "cron": "99 9 * * *"}, 400),
    ("POST", "/api/reminders", {**GOOD, "at": "2026-03-03T09:00"}, 400),
    ("POST", "/api/reminders", {**GOOD, "zone": "Mars"}, 400),
    ("POST", "/api/reminders", {**GOOD, "text": "a\0b"}, 400),
    ("POST", "/api/reminders", {**GOOD, "endpoint": "\0"}, 400),
    ("PATCH", "/api/reminders/{id}", {"text": "\0"}, 400),
    ("GET", "/api/reminders?after=%00", None, 400),
    ("GET", "/api/reminder-fires?reminder=%00", None, 400),
    ("POST", "/api/reminders/say", {"say": "stretch at 9:00 to a@x.example", "zone": "Mars"}, 400),
    ("POST", "/api/reminders/preview", {"say": "x at 9:00 to a@x.example", "zone": "Europe"}, 400),
    ("POST", "/remind?zone=Mars", "stretch at 9:00 to a@x.example", 400),
    ("GET", "/api/reminders?limit=0", None, 422),
    ("GET", "/api/reminders?limit=1001", None, 422),
    ("GET", "/api/reminders?only=some", None, 422),
    ("GET", "/api/reminders/rem_none", None, 404),
    ("PATCH", "/api/reminders/rem_none", {"title": "x"}, 404),
    ("PATCH", "/api/reminders/{id}", {"title": ""}, 422),
    ("PATCH", "/api/reminders/{id}", {"state": "done"}, 422),
    ("PATCH", "/api/reminders/{id}", {"email": None}, 400),
    ("PATCH", "/api/reminders/{id}", {"cron": "x"}, 400),
    ("DELETE", "/api/reminders/rem_none", None, 404),
    ("POST", "/api/reminders/rem_none/snooze", {}, 404),
    ("POST", "/api/reminders/{id}/snooze", {"length": "0s"}, 400),
    ("POST", "/api/reminders/{id}/snooze", {"length": "soon"}, 400),
    ("POST", "/api/reminders/{id}/snooze", {"length": 10}, 422),
    ("POST", "/api/reminders/rem_none/send-now", {}, 404),
    ("GET", "/api/reminders/rem_none/next", None, 404),
    ("GET", "/api/reminders/{id}/next?count=51", None, 422),
    ("GET", "/api/reminder-fires?only=lost", None, 422),
    ("POST", "/api/reminders", {**GOOD, "quiet": "at night"}, 400),
    ("POST", "/api/reminders", {**GOOD, "repeat": "1s"}, 400),
    ("POST", "/api/reminders/say", {"say": "soon"}, 400),
    ("POST", "/api/reminders/say", {"say": "x" * 601}, 422),
    ("POST", "/api/reminders/preview", {"say": "stretch soon"}, 400),
    ("POST", "/api/reminders/preview", {}, 422),
    ("POST", "/api/reminders/import", {}, 400),
    ("POST", "/api/reminders/rem_none/done", {}, 404),
    ("POST", "/api/reminder-fires/7/replay", {}, 404),
    ("POST", "/api/reminder-fires/{job}/replay", {}, 409),
    ("GET", "/api/reminder-calls?limit=0", None, 422),
    (
        "POST",
        "/api/reminder-endpoints",
        {"name": "b", "url": "https://x.example", "contact": 7},
        422,
    ),
    ("POST", "/api/reminder-fires/7/redrive", {}, 404),
    ("POST", "/api/reminder-fires/x/redrive", {}, 404),
    ("POST", "/api/reminder-fires/{job}/redrive", {}, 409),
    ("POST", "/api/reminder-endpoints", {"name": "ada"}, 422),
    ("POST", "/api/reminder-endpoints", {"name": "", "url": "https://example.com"}, 400),
    ("POST", "/api/reminder-endpoints", {"name": "b", "url": "http://10.0.0.1/"}, 400),
    ("PATCH", "/api/reminder-endpoints/ep_none", {"on": False}, 404),
    ("POST", "/api/reminder-endpoints/ep_none/rotate", {}, 404),
    ("POST", "/api/reminder-endpoints/ep_none/test", {}, 404),
    ("DELETE", "/api/reminder-endpoints/ep_none", None, 404),
]


def test_every_route_refuses_what_it_cannot_use_and_changes_nothing(h: Harness, t: Twins) -> None:
    web, made = Web(h), remind(cron="0 9 * * *")
    h.advance("1h")
    names = {"{id}": made.id, "{job}": str(log.recent()[0].job)}
    before = (book.every(), endpoints.every(), [each.key for each in h.app.schedules()])

    for method, path, body, status in BAD:
        for name, value in names.items():
            path = path.replace(name, value)  # noqa: PLW2901 - the row's own path
        answer = web.call(method, path, body)
        assert answer.status_code == status, (method, path, body, answer.text)

    assert before == (book.every(), endpoints.every(), [each.key for each in h.app.schedules()])


def test_without_a_token_nothing_is_told_and_to_read_is_not_to_write(h: Harness) -> None:
    web = Web(h, "read")

    assert web.program.get("/api/reminders").status_code == 401
    assert web.call("GET", "/api/reminders").status_code == 200
    assert web.call("POST", "/api/reminders", GOOD).status_code == 403
    assert book.count() == 0


@pytest.mark.rows("003-06", "003-X1")
def test_a_reminder_lives_by_the_api(h: Harness, t: Twins) -> None:
    web = Web(h)
    made = web.call("POST", "/api/reminders", GOOD)
    assert made.status_code == 201, made.text
    where = made.headers["location"]

    assert web.call("GET", where).json() == made.json()
    assert web.call("GET", "/api/reminders?only=coming").json() == [made.json()]
    assert web.call("GET", f"{where}/next?count=1").json() == ["2026-03-02T09:00:00+00:00"]
    snoozed = web.call("POST", f"{where}/snooze", {"length": "5m"}).json()
    assert snoozed["next_fire_at"] == START + 65 * 60_000
    assert web.call("PATCH", where, {"title": "Stand up"}).json()["title"] == "Stand up"
    assert web.call("POST", f"{where}/send-now", {}).status_code == 202
    h.drain()
    [fire] = web.call("GET", "/api/reminder-fires").json()
    assert (fire["title"], fire["outcome"]) == ("Stand up", "success")
    assert len(t.resend.ledger.of("mail")) == 1
    assert web.call("DELETE", where).status_code == 204
    assert web.call("GET", where).status_code == 404


@pytest.mark.rows("003-X3")
def test_an_endpoint_lives_by_the_api_and_its_secret_is_told_once(h: Harness, t: Twins) -> None:
    web = Web(h)
    url = f"{t.hooks.url}/hook/ada"
    made = web.call("POST", "/api/reminder-endpoints", {"name": "ada", "url": url}).json()

    assert made["secret"].startswith("whsec_")
    [listed] = web.call("GET", "/api/reminder-endpoints").json()
    assert "secret" not in listed
    rotated = web.call("POST", f"/api/reminder-endpoints/{made['id']}/rotate", {}).json()
    assert rotated["secret"] != made["secret"]
    t.hooks.endpoint("ada", "standard", [rotated["secret"]])
    tried = f"/api/reminder-endpoints/{made['id']}/test"
    assert web.call("POST", tried, {}).json() == {"answer": "200"}
    t.hooks.faults.set([{"route": "hook", "calls": "1", "do": "drop_before"}])
    assert "error" in web.call("POST", tried, {}).json()
    assert len(t.hooks.ledger.of("delivered")) == 1
    off = web.call("PATCH", f"/api/reminder-endpoints/{made['id']}", {"on": False}).json()
    assert off["state"] == "off"
    assert web.call("DELETE", f"/api/reminder-endpoints/{made['id']}").status_code == 204


def test_the_page_says_what_comes_what_failed_and_what_was_sent(h: Harness, t: Twins) -> None:
    web, hook = Web(h), Hook(t)
    assert "Nothing is coming" in web.page("/reminders/")
    hook.answers(503)
    remind(title="<b>Bank</b>", email="ada@demo.example", endpoint=hook.id, cron="0 9 * * *")
    remind(title="Rent", endpoint=hook.id)
    h.advance("1h")

    page = web.page("/reminders/?range=all")
    assert "&lt;b&gt;Bank&lt;/b&gt;" in page
    assert "<b>Bank" not in page
    assert "attempt 1 of 4" in page
    h.advance("1h")
    page = web.page("/reminders/")
    assert "given up after 4 attempts" in page
    assert "Send the rest" in page
    assert "partial: webhook" in web.page("/reminders/?range=all")
    for each in book.every():
        assert web.page(f"/reminders/reminder/{each.id}")
    assert hook.id in web.page("/reminders/endpoints")


def test_the_buttons_of_the_page_do_what_they_say(h: Harness, t: Twins) -> None:
    web, hook = Web(h), Hook(t)
    hook.answers(503, 503, 503, 503, 200)
    said = web.submit(
        "/reminders/add", title="Rent", when="every 1h", zone="UTC", email="", endpoint=hook.id
    )
    assert "Rent: first on Mon 2 Mar 09:00" in said
    [made] = book.every()

    assert "next on Mon 2 Mar 09:10" in web.submit(f"/reminders/reminder/{made.id}/snooze")
    h.advance("110m")
    [fire] = log.failed()
    web.submit(f"/reminders/fires/{fire.job}/redrive")
    h.drain()
    assert len(t.hooks.ledger.of("delivered")) == 1
    assert "Cannot read" in web.submit(
        "/reminders/add", title="x", when="soon", email="a@b.example"
    )
    web.submit(f"/reminders/endpoints/{hook.id}/off")
    assert endpoints.find(hook.id).state == "off"
    assert "is switched off" in web.page("/reminders/")
    web.submit(f"/reminders/endpoints/{hook.id}/change", url=f"{t.hooks.url}/hook/ada")
    assert endpoints.find(hook.id).state == "on"
    web.submit(f"/reminders/reminder/{made.id}/send-now")
    h.drain()
    assert len(t.hooks.ledger.of("delivered")) == 2
