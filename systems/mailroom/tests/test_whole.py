"""Batches, files, changes, held mail, exact windows, requests in flight, and the delivery log."""

from __future__ import annotations

import base64
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from duework import App, Conflict, OutboxHandle, UsageError
from duework.testing import Harness
from systems.mailroom import blobs, board, posting
from systems.mailroom.keeping import prune
from systems.mailroom.mail import Mail, NewMessage
from systems.mailroom.outbox import MailOutbox, box
from systems.mailroom.posting import InFlight, MessageChange, change, flight, post
from systems.mailroom.settings import Settings
from systems.mailroom.tenant import Tenant
from systems.mailroom.tests.conftest import Room, settings_for
from systems.mailroom.tests.test_tenants import one
from systems.mailroom.tests.test_web import GOOD, acme, client, operator, posted  # noqa: F401
from systems.twins import twins
from tests.web.conftest import Browser

PDF = b"%PDF-1.7 a very small file"


def file(**more: str) -> dict[str, str]:
    return {"name": "bill.pdf", "type": "application/pdf", **more}


def test_a_batch_is_taken_whole_and_known_again(room: Room, acme: Browser) -> None:  # noqa: F811
    body = {"messages": [{**GOOD, "key": f"k-{number}"} for number in range(5)]}

    first = acme.post("/messages/batch", json=body)
    again = acme.post("/messages/batch", json=body)

    assert (first.status_code, again.status_code) == (202, 200)
    ids = [each["id"] for each in first.json()["messages"]]
    assert [each["id"] for each in again.json()["messages"]] == ids
    body["messages"][4]["subject"] = "Another"
    body["messages"].append({**GOOD, "key": "k-5"})
    assert acme.post("/messages/batch", json=body).status_code == 409
    assert board.counts(room.app)["queued"] == 5
    for wrong in ({"messages": []}, {"messages": [GOOD]}, {"messages": [{**GOOD, "key": "a"}] * 2},
                  {"messages": [{**GOOD, "key": str(n)} for n in range(101)]}):  # fmt: skip
        assert acme.post("/messages/batch", json=wrong).status_code in {400, 422}


def test_a_request_with_a_key_that_is_in_flight_is_409(room: Room, acme: Browser) -> None:  # noqa: F811
    with flight("acme", ["order-7"]):
        answer = posted(acme)
        assert answer.status_code == 409
        assert "being handled" in answer.json()["detail"]
        assert posted(acme, "order-8").status_code == 202
        with pytest.raises(InFlight), flight("acme", ["x", "order-7"]):
            pass
        with flight("birch", ["order-7"]):
            pass
    assert posted(acme).status_code == 202


def test_many_requests_at_once_with_one_key_are_one_message(room: Room, acme: Browser) -> None:  # noqa: F811
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(posted(acme).status_code)) for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert set(answers) <= {200, 202, 409}
    assert answers.count(202) == 1
    assert board.counts(room.app)["queued"] == 1


@pytest.mark.rows("002-X4")
def test_files_are_stored_once_and_arrive_with_the_mail(room: Room, acme: Browser) -> None:  # noqa: F811
    made = acme.post("/attachments", content=PDF, headers={"content-type": "application/pdf"})
    again = acme.post("/attachments", content=PDF, headers={"content-type": "application/pdf"})
    assert made.json() == again.json()
    blob = made.json()["id"]
    inline = base64.b64encode(b"a,b\n1,2\n").decode()
    files = [file(blob=blob), file(name="data.csv", type="text/csv", content=inline)]

    assert posted(acme, attachments=files).status_code == 202
    room.h.advance("1m")

    assert board.counts(room.app)["sent"] == 1
    assert room.app.read("select count(*) as n from mailroom_blob")[0].n == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"attachments": [file()]},
        {"attachments": [file(blob="blob_none")]},
        {"attachments": [file(content="not base64!")]},
        {"attachments": [file(content="")]},
        {"attachments": [file(content="YQ==", name="../x")]},
        {"attachments": [file(content="YQ==", name="a\r\nb")]},
        {"attachments": [file(content="YQ==", type="text")]},
        {"attachments": [file(content="YQ==")] * 21},
    ],
)
def test_files_that_make_no_sense_are_refused(
    room: Room,
    acme: Browser,  # noqa: F811
    wrong: dict[str, Any],
) -> None:
    assert posted(acme, **wrong).status_code in {400, 422}
    assert board.counts(room.app)["queued"] == 0


def test_a_tenant_cannot_attach_the_files_of_another(room: Room) -> None:
    blob = blobs.keep("birch", PDF, "application/pdf")
    new = msgspec.convert({**GOOD, "attachments": [file(blob=blob.id)]}, NewMessage)

    with pytest.raises(UsageError, match="no blob"):
        post(room.app, "acme", "k", new)
    with pytest.raises(UsageError, match="1 to 10000000 bytes"):
        blobs.keep("acme", b"x" * 10_000_001, "a/b")


def test_files_go_when_no_message_needs_them(room: Room) -> None:
    kept = blobs.keep("acme", b"one", "a/b")
    blobs.keep("acme", b"two", "a/b")
    later = datetime.fromtimestamp(room.h.now / 1000, UTC) + timedelta(days=30)
    new = {**GOOD, "at": later, "attachments": [file(blob=kept.id)]}
    post(room.app, "acme", "k", msgspec.convert(new, NewMessage))

    room.h.advance("9d")
    prune.enqueue()
    room.h.drain()

    assert [row.id for row in room.app.read("select id from mailroom_blob")] == [kept.id]
    room.h.advance("30d")
    assert sum(room.delivered().values()) == 1
    room.h.advance("9d")
    assert room.app.read("select id from mailroom_blob") == []
    room.h.advance("30d")
    assert room.app.read("select key from mailroom_try") == []


def test_a_message_that_waits_is_changed_and_sent_once(room: Room, acme: Browser) -> None:  # noqa: F811
    later = datetime.fromtimestamp(room.h.now / 1000, UTC) + timedelta(hours=5)
    first = posted(acme, at=later.isoformat()).json()
    sooner = (later - timedelta(hours=3)).isoformat()

    changed = acme.patch(f"/messages/{first['id']}", json={"text": "Better", "at": sooner}).json()

    assert (changed["key"], changed["state"]) == ("order-7 #1", "queued")
    old = acme.get(f"/messages/{first['id']}").json()
    assert (old["state"], old["error"]) == ("cancelled", "changed: it is order-7 #1 now")
    # The request that was made before leads to what stands in its place.
    assert posted(acme, at=later.isoformat()).json()["id"] == changed["id"]
    room.h.advance("1h 50m")
    assert board.counts(room.app)["sent"] == 0
    room.h.advance("30m")
    assert sum(room.delivered().values()) == 1
    assert acme.patch(f"/messages/{changed['id']}", json={"text": "x"}).status_code == 409
    assert acme.patch("/messages/7", json={"text": "x"}).status_code == 404
    for wrong in ({"subject": ""}, {"to": "nobody"}, {"at": "soon"}):
        second = posted(acme, f"k{sorted(wrong)}", at=later.isoformat()).json()["id"]
        assert acme.patch(f"/messages/{second}", json=wrong).status_code in {400, 422}


@pytest.mark.parametrize("dies_in", ["cancelled", "apply"])
def test_a_change_that_was_interrupted_is_brought_to_its_end(
    room: Room, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    later = datetime.fromtimestamp(room.h.now / 1000, UTC) + timedelta(hours=5)
    message = post(room.app, "acme", "k", one(at=later))
    with monkeypatch.context() as patch:
        if dies_in == "cancelled":
            patch.setattr(posting, "cancelled", _dies)
        else:
            patch.setattr(posting, "_found", _dies)
            patch.setattr(Tenant, "apply_change", _dies)
        with pytest.raises((SystemExit, Exception)):
            change(room.app, message, MessageChange(subject="Another"))

    room.h.advance("6h")

    assert sum(room.delivered().values()) == 1
    assert {each["state"]: each["subject"] for each in board.listed(room.app)} == {
        "cancelled": "Hello",
        "sent": "Another",
    }


def _dies(*_: Any) -> Any:
    raise SystemExit


def test_two_changes_of_one_message_do_not_both_count(room: Room) -> None:
    later = datetime.fromtimestamp(room.h.now / 1000, UTC) + timedelta(hours=5)
    message = post(room.app, "acme", "k", one(at=later))
    changed = change(room.app, message, MessageChange(subject="First"))

    with pytest.raises(Conflict):
        change(room.app, message, MessageChange(subject="Second"))
    third = change(room.app, changed, MessageChange(subject="Third"))

    assert board.shown(third)["key"] == "k #2"
    room.h.advance("6h")
    assert sum(room.delivered().values()) == 1


def test_mail_beyond_the_limit_is_held_and_goes_out_by_itself(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_for(monkeypatch, endpoint=room.acs.url, over_limit="hold")
    room.app.object(Tenant, "acme").set_limit(2).result()

    made = [post(room.app, "acme", f"k-{number}", one()) for number in range(5)]

    room.h.advance("23h")
    assert (board.counts(room.app)["sent"], board.counts(room.app)["queued"]) == (2, 3)
    days = [each["due"] for each in reversed(board.listed(room.app, state="queued"))]
    assert days == [86_400_000 * (room.h.now // 86_400_000 + add) for add in (1, 1, 2)]
    room.h.advance("2h")
    assert board.counts(room.app)["sent"] == 4
    room.h.advance("24h")
    assert board.counts(room.app)["sent"] == 5
    assert board.found(made[4].id).state == "sent"


class Windowed:
    """An outbox on Resend with windows."""

    def __init__(self, **windows: str) -> None:
        self.app = App("sqlite://")
        self.settings = Settings(provider="resend", **windows)
        outbox = MailOutbox(lambda: self.settings, self.app.now)
        self.box: OutboxHandle[Mail] = self.app.outbox("mail", outbox)

    def send(self, tenant: str, number: int) -> None:
        facts = {"subject": f"Mail {number}", "text": "Hi", "to": ("ada@demo.example",)}
        mail = Mail(tenant=tenant, sender="me@demo.example", **facts)
        self.box.using(key=f"{tenant}:{number}", lane=tenant).enqueue(mail)


def most_in(times: list[int], window_ms: int) -> int:
    """The most that arrived in any stretch of this length, by the receiver's own clock."""
    return max(sum(1 for at in times if begin <= at < begin + window_ms) for begin in times)


@pytest.mark.parametrize(
    ("window", "count", "period"), [("1/1m", 1, 60_000), ("7/1h", 7, 3_600_000)]
)
def test_a_window_of_one_sends_one_and_no_stretch_of_its_length_has_more(
    window: str, count: int, period: int
) -> None:
    made = Windowed(window=window)
    with Harness(made.app) as h, twins(h.clock, "resend") as t:
        made.settings = Settings(provider="resend", endpoint=t.resend.url, window=window)
        for number in range(count * 3):
            made.send(f"tenant-{number % 2}", number)
        h.drain()
        assert len(t.resend.mails) == 1
        h.advance(f"{4 * period // 1000}s")

        times = sorted(each.at for each in t.resend.mails.values())
        assert len(times) == count * 3
        assert most_in(times, period) == count


def test_each_tenant_has_a_window_of_its_own(room: Room) -> None:
    made = Windowed(tenant_window="2/1m")
    with Harness(made.app) as h, twins(h.clock, "resend") as t:
        made.settings = Settings(provider="resend", endpoint=t.resend.url, tenant_window="2/1m")
        for number in range(12):
            made.send(f"tenant-{number % 3}", number)
        h.advance("5m")

        times: dict[str, list[int]] = {}
        for each in t.resend.mails.values():
            number = int(each.body["subject"].split()[1])
            times.setdefault(f"tenant-{number % 3}", []).append(each.at)
        assert {name: len(each) for name, each in times.items()} == dict.fromkeys(times, 4)
        assert all(most_in(sorted(each), 60_000) == 2 for each in times.values())
        assert all(b - a >= 30_000 for each in times.values() for a, b in pairwise(sorted(each)))


def test_the_log_says_whom_it_was_offered_to(room: Room, acme: Browser) -> None:  # noqa: F811
    first = posted(acme).json()["id"]
    room.h.advance("1m")

    found = acme.get(f"/messages/{first}/log").json()

    assert [(each["who"], each["what"]) for each in found] == [("acs", "was asked")]
    assert acme.get("/messages/7/log").status_code == 404


def test_all_that_failed_is_queued_again_by_its_tenant(room: Room, acme: Browser) -> None:  # noqa: F811
    room.acs.set_outcome("ada@demo.example", "Failed")
    for number in range(3):
        posted(acme, f"k-{number}")
    room.h.advance("2m")
    assert board.counts(room.app)["failed"] == 3
    room.acs.set_outcome("ada@demo.example", "Succeeded")

    assert acme.post("/messages/retry-failed", json={}).json() == {"queued": 3}

    room.h.advance("2m")
    assert board.counts(room.app)["sent"] == 3
    assert box.counts()["failed"] == 0
