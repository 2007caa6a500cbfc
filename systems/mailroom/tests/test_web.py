"""Routes and pages: who may ask, what they are answered, what people see and do."""

from __future__ import annotations

from typing import Any

import pytest

from duework.web.tokens import Tokens
from systems.mailroom import board, keys
from systems.mailroom.outbox import box
from systems.mailroom.seed import seed
from systems.mailroom.tenant import Tenant
from systems.mailroom.tests.conftest import Room
from tests.web.conftest import Browser

HERE = "http://localhost"
GOOD = {"to": "ada@demo.example", "subject": "Hello", "text": "Hi"}


def client(room: Room, **headers: str) -> Browser:
    made = Browser(room.app.asgi(), base_url=HERE, follow_redirects=False)
    made.headers.update(headers)
    return made


@pytest.fixture
def acme(room: Room) -> Browser:
    """A program of the tenant acme."""
    return client(room, authorization=f"Bearer {keys.new_key(room.app, 'acme')}")


@pytest.fixture
def operator(room: Room) -> Browser:
    return client(room).sign_in(Tokens(room.app).add("operator", "operate", None))


def posted(program: Browser, key: str = "order-7", **change: Any) -> Any:
    return program.post("/messages", json=GOOD | change, headers={"idempotency-key": key})


@pytest.mark.rows("002-X1")
def test_a_program_posts_and_follows_its_message(room: Room, acme: Browser) -> None:
    first = posted(acme)
    assert first.status_code == 202
    place = first.headers["location"]
    assert acme.get(place).json()["state"] == "queued"
    again = posted(acme)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    other = posted(acme, subject="Another")
    assert other.status_code == 409
    assert "order-7" in other.json()["detail"]
    room.h.advance("1m")
    found = acme.get(place).json()
    assert (found["state"], found["key"], found["submits"]) == ("sent", "order-7", 1)
    listed = acme.get("/messages?state=sent").json()
    assert [each["id"] for each in listed["messages"]] == [found["id"]]
    assert acme.get(f"/messages?before={listed['before']}").json()["messages"] == []


def test_a_message_is_cancelled_while_it_waits_and_not_later(room: Room, acme: Browser) -> None:
    place = posted(acme).headers["location"]
    assert acme.post(f"{place}/cancel").json()["state"] == "cancelled"
    assert acme.post(f"{place}/retry").json()["state"] == "queued"
    room.h.drain()
    late = acme.post(f"{place}/cancel")
    assert late.status_code == 409
    assert "with the other side already" in late.json()["detail"]
    room.h.advance("1m")
    assert acme.post(f"{place}/retry").status_code == 409


def test_a_tenant_sees_nothing_of_another(room: Room, acme: Browser) -> None:
    place = posted(acme).headers["location"]
    birch = client(room, authorization=f"Bearer {keys.new_key(room.app, 'birch')}")
    assert birch.get(place).status_code == 404
    assert birch.post(f"{place}/cancel").status_code == 404
    assert birch.post(f"{place}/retry").status_code == 404
    assert birch.get("/messages").json()["messages"] == []
    assert posted(birch).status_code == 202


def test_an_operator_posts_for_a_tenant_by_a_token(room: Room) -> None:
    secret = Tokens(room.app).add("operator", "operate", None)
    program = client(room, authorization=f"Bearer {secret}")
    path, key = "/tenants/acme/messages", {"idempotency-key": "k"}
    assert program.post(path, json=GOOD, headers=key).status_code == 202
    assert program.post("/tenants/Acme/messages", json=GOOD, headers=key).status_code == 400
    assert program.post("/messages", json=GOOD, headers=key).status_code == 401
    reader = Tokens(room.app).add("reader", "read", None)
    weak = client(room, authorization=f"Bearer {reader}")
    assert weak.post(path, json=GOOD, headers=key).status_code == 403


def test_over_the_daily_limit_a_program_is_told_when_to_come_back(
    room: Room, acme: Browser
) -> None:
    room.app.object(Tenant, "acme").set_limit(1).result()
    posted(acme)
    refused = posted(acme, "order-8")
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "86400"
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "daily_limit"


BAD: list[tuple[str, str, Any, dict[str, str], int]] = [
    ("POST", "/messages", GOOD, {}, 400),
    ("POST", "/messages", GOOD, {"idempotency-key": "two words"}, 400),
    ("POST", "/messages", GOOD, {"idempotency-key": "x" * 201}, 400),
    ("POST", "/messages", {}, {"idempotency-key": "k"}, 422),
    ("POST", "/messages", [], {"idempotency-key": "k"}, 422),
    ("POST", "/messages", GOOD | {"to": "nobody"}, {"idempotency-key": "k"}, 422),
    ("POST", "/messages", GOOD | {"to": [1]}, {"idempotency-key": "k"}, 422),
    ("POST", "/messages", GOOD | {"subject": "a\r\nBcc: b@c.d"}, {"idempotency-key": "k"}, 422),
    ("POST", "/messages", GOOD | {"text": ""}, {"idempotency-key": "k"}, 422),
    ("POST", "/messages", GOOD | {"bcc": "b@c.d"}, {"idempotency-key": "k"}, 422),
    ("POST", "/messages", GOOD | {"text": "x" * 22_000_001}, {"idempotency-key": "k"}, 413),
    ("POST", "/messages", GOOD, {"idempotency-key": "k", "content-type": "text/plain"}, 415),
    ("POST", "/messages", GOOD, {"idempotency-key": "k", "authorization": "Bearer mr_x"}, 401),
    ("POST", "/messages", GOOD, {"idempotency-key": "k", "authorization": ""}, 401),
    ("POST", "/messages", GOOD, {"idempotency-key": "k", "authorization": "Basic eDp5"}, 401),
    ("POST", "/tenants/acme/messages", GOOD, {"idempotency-key": "k"}, 401),
    ("GET", "/messages?state=lost", None, {}, 422),
    ("GET", "/messages?before=x", None, {}, 422),
    ("GET", "/messages?page=2", None, {}, 422),
    ("GET", "/messages/7", None, {}, 404),
    ("GET", "/messages/x", None, {}, 404),
    ("GET", "/messages/99999999999999999999", None, {}, 404),
    ("POST", "/messages/7/cancel", None, {}, 404),
    ("POST", "/messages/7/retry", None, {}, 404),
    ("DELETE", "/messages/7", None, {}, 405),
    ("PUT", "/messages", GOOD, {}, 405),
]


def test_what_makes_no_sense_is_refused_and_changes_nothing(room: Room, acme: Browser) -> None:
    for method, path, body, headers, status in BAD:
        answer = acme.request(method, path, json=body, headers=headers)
        told = f"{method} {path} {headers} {str(body)[:80]}: {answer.text}"
        assert answer.status_code == status, told
        assert answer.headers["content-type"] == "application/problem+json", told
    assert sum(board.counts(room.app).values()) == 0
    assert board.tenants(room.app) == []


def test_a_refusal_names_the_field_and_speaks_plainly(acme: Browser) -> None:
    [error] = posted(acme, to="nobody").json()["errors"]
    assert (error["path"], error["message"]) == ("to", "not an address")
    [error] = posted(acme, subject="a\nb").json()["errors"]
    assert error["message"] == "one line, without control characters"


@pytest.mark.rows("002-23", "002-X3")
def test_the_page_shows_lanes_and_needs_no_script(room: Room, operator: Browser) -> None:
    seed(room.app, tenants=2, messages=30)
    before = operator.get("/mailroom/").text
    assert "30 messages</b> are on their way" in before
    room.h.drain()
    room.acs.set_outcome("person-29@demo.example", "Failed")
    room.h.advance("40s")
    after = operator.get("/mailroom/").text
    assert "Nothing is on its way." in after
    assert 'id="lane-sent"' in after
    assert "p…@demo.example" in after
    assert "Email was dropped" in after
    assert "Retry 1 failed" in after
    assert "person-3@" not in after  # addresses are masked where many look
    one = operator.get("/mailroom/?tenant=birch").text
    assert "<h1>birch</h1>" in one
    assert operator.get("/mailroom/messages?state=failed").status_code == 200
    assert operator.get("/mailroom/tenants").text.count("<tr") == 3
    assert operator.get("/mailroom/tenants/acme").status_code == 200
    assert operator.get("/mailroom/tenants/nobody").status_code == 404
    assert operator.get("/mailroom/messages/7777").status_code == 404


@pytest.mark.rows("002-T12")
def test_what_a_caller_writes_is_escaped_everywhere(room: Room, operator: Browser) -> None:
    acme = client(room, authorization=f"Bearer {keys.new_key(room.app, 'acme')}")
    evil = "<img src=x onerror=alert(1)>"
    made = posted(acme, subject=evil, text=evil, to="'x'&amp@demo.example").json()
    for path in ("/", "/messages", f"/messages/{made['id']}"):
        text = operator.get(f"/mailroom{path}").text
        assert "<img" not in text
        assert "&lt;img src=x" in text


def test_a_message_has_its_life_on_a_page(room: Room, operator: Browser) -> None:
    room.acs.set_times(running=30)
    seed(room.app, tenants=1, messages=1)
    [line] = board.listed(room.app)
    path = f"/mailroom/messages/{line['id']}"
    assert "Cancel" in operator.get(path).text
    room.h.advance("25s")
    assert "pending at 2 polls" in operator.get(path).text
    room.h.advance("1m")
    text = operator.get(path).text
    assert "seed-0" in text
    assert "st-sent" in text


@pytest.mark.rows("002-X1")
def test_an_operator_retries_decides_and_writes_from_the_page(
    room: Room, operator: Browser
) -> None:
    room.acs.set_outcome("person-0@demo.example", "Failed")
    room.acs.set_outcome("person-1@demo.example", "Failed")
    seed(room.app, tenants=2, messages=4)
    room.h.advance("30s")
    assert board.counts(room.app)["failed"] == 2
    room.acs.outcomes.clear()
    assert operator.submit("/mailroom/retry-failed", tenant="acme").status_code == 303
    assert board.counts(room.app)["queued"] == 1
    operator.submit("/mailroom/retry-failed", tenant="")
    room.h.advance("30s")
    assert board.counts(room.app)["sent"] == 4
    form = {"tenant": "acme", "to": "ada@demo.example", "subject": "Hello", "text": "Hi"}
    assert operator.submit("/mailroom/send", **form).status_code == 303
    [line] = board.listed(room.app, state="queued")
    operator.submit(f"/mailroom/messages/{line['id']}/cancel")
    assert box.get_message(line["id"]).state == "cancelled"
    operator.submit(f"/mailroom/messages/{line['id']}/retry")
    assert box.get_message(line["id"]).state == "queued"
    operator.submit("/mailroom/send", **form | {"to": "nobody"})
    operator.submit("/mailroom/send", **form | {"tenant": "No One"})
    assert len(board.listed(room.app)) == 5
    operator.submit("/mailroom/tenants/acme/suppress", address="bob@demo.example")
    assert len(room.app.object(Tenant, "acme").suppressed().result()) == 1
    operator.submit("/mailroom/tenants/acme/suppress", address="bob@demo.example", undo="yes")
    assert room.app.object(Tenant, "acme").suppressed().result() == []


def test_what_is_unsure_is_decided_once(room: Room) -> None:
    running = {"status": 200, "body": '{"status": "Running"}', "headers": {"retry-after": "3600"}}
    room.acs.faults.set([{"route": "poll", "calls": "1..", "do": "status", **running}])
    seed(room.app, tenants=1, messages=2)
    room.h.advance("26h")
    operator = client(room).sign_in(Tokens(room.app).add("operator", "operate", None))
    one, two = (each["id"] for each in board.listed(room.app, state="unsure"))
    assert "Nobody can tell" in operator.get(f"/mailroom/messages/{one}").text
    operator.submit(f"/mailroom/messages/{one}/call-sent")
    operator.submit(f"/mailroom/messages/{one}/give-up")
    operator.submit(f"/mailroom/messages/{two}/give-up")
    assert [box.get_message(each).state for each in (one, two)] == ["sent", "failed"]


def test_the_page_of_a_message_has_its_log_and_that_of_a_tenant_its_templates(
    room: Room, acme: Browser, operator: Browser
) -> None:
    file = {"name": "<a>.txt", "content": "YQ==", "type": "text/plain"}
    first = posted(acme, html="<p>Hi</p>", attachments=[file]).json()["id"]
    acme.put("/templates/order", json={"subject": "Order {{ n }}", "text": "Hi"})
    room.acs.set_outcome("ada@demo.example", "Failed")
    room.h.advance("1m")

    page = operator.get(f"/mailroom/messages/{first}").text
    assert "Delivery log" in page
    assert "acs" in page
    assert "&lt;a&gt;.txt" in page
    assert "&lt;p&gt;Hi&lt;/p&gt;" in page
    assert "Order {{ n }}" in operator.get("/mailroom/tenants/acme").text
    assert "Retry all that failed" in operator.get("/mailroom/messages?state=failed").text
