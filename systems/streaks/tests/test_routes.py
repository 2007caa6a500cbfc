"""The dispatcher's addresses, status by status; nothing is done that the caller may not ask for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from duework import Job, Secret
from systems.streaks.check import check
from systems.streaks.part import part
from systems.streaks.tests.conftest import SECRET, Place, settings_for
from tests.web.conftest import Site

DAY = "2026-03-04"
URL = "/api/cron/process-user"


class Caller:
    """A dispatcher that knows the secret."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        given = settings_for(place.t, server_secret=Secret(SECRET), patience="5s")
        monkeypatch.setattr(part, "_settings", given)
        self._browser = Site(place.app).browser()

    def post(self, **body: Any) -> Any:
        return self.send(json=body)

    def send(self, secret: str | None = SECRET, **more: Any) -> Any:
        headers = {} if secret is None else {"X-Cron-Secret": secret}
        return self._browser.post(URL, headers={**headers, **more.pop("headers", {})}, **more)

    def get(self, path: str, secret: str = SECRET) -> Any:
        return self._browser.get(path, headers={"X-Cron-Secret": secret})

    def while_working(self, **body: Any) -> Any:
        """The call as a dispatcher makes it, while a worker does the work."""
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(self.post(**body)))
        with pytest.MonkeyPatch.context() as patched:
            waits = threading.Event()
            look = Job._settled  # noqa: SLF001 - what a caller that waits calls
            patched.setattr(Job, "_settled", lambda job: waits.set() or look(job))
            thread.start()
            assert waits.wait(10)
            self.place.h.drain()
            thread.join(20)
        return answers[0]


@pytest.fixture
def caller(place: Place, monkeypatch: pytest.MonkeyPatch) -> Caller:
    return Caller(place, monkeypatch)


def ready(place: Place, person: Any) -> Any:
    return check.enqueue(person.id, DAY, place.t.github.url)


@pytest.mark.rows("000-27")
def test_nobody_may_call_without_the_secret(
    caller: Caller, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ready(place, place.person())
    body = {"queueId": str(job.id), "userId": job.arguments["person"]}

    answers = [caller.send(secret, json=body) for secret in (None, "", "wrong", SECRET + "x")]
    answers.append(caller.get("/api/cron/batch/1", secret="wrong"))
    monkeypatch.setattr(part, "_settings", settings_for(place.t))
    answers += [caller.send(secret, json=body) for secret in (SECRET, "", "None")]

    for answer in answers:
        assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
    assert job.refresh().phase == "ready"


@pytest.mark.rows("000-13", "000-29", "000-31")
def test_a_user_that_is_processed_is_a_success_and_later_one_that_was_completed(
    caller: Caller, place: Place
) -> None:
    person = place.person()
    job = ready(place, person)
    body = {"queueId": str(job.id), "userId": person.id}

    answer = caller.while_working(**body)
    place.h.advance("1m")

    assert (answer.status_code, answer.json()) == (200, {"success": True, **body})
    assert job.refresh().state == "done"
    again = caller.post(queueId=job.id, userId=person.id)
    assert again.status_code == 200
    late = {"skipped": True, "reason": "Already completed"}
    assert again.json() == {"success": True, **body, **late}
    assert set(place.received().values()) == {1}


@pytest.mark.rows("000-30", "000-32", "000-64")
def test_a_user_that_fails_is_an_answer_like_any_other(caller: Caller, place: Place) -> None:
    person = place.person()
    place.t.github.revoke("ghp_user001")
    job = ready(place, person)
    body = {"queueId": str(job.id), "userId": person.id}

    answer = caller.while_working(**body)

    assert answer.status_code == 200
    error = "GitHub refused the token, which was revoked or has expired"
    assert answer.json() == {"success": False, **body, "error": error}
    again = caller.post(**body)
    assert again.status_code == 200
    assert again.json() == {
        "success": False,
        **body,
        "skipped": True,
        "reason": "Already failed",
    }


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({"content": b""}, 400, "Missing queueId or userId"),
    ({"json": {}}, 400, "Missing queueId or userId"),
    ({"json": {"queueId": "7"}}, 400, "Missing queueId or userId"),
    ({"json": {"userId": "ada"}}, 400, "Missing queueId or userId"),
    ({"json": {"queueId": "", "userId": ""}}, 400, "Missing queueId or userId"),
    ({"json": {"queueId": None, "userId": None}}, 400, "Missing queueId or userId"),
    ({"json": {"queueId": ["7"], "userId": {}}}, 400, "Missing queueId or userId"),
    ({"json": {"queueId": "999999", "userId": "ada"}}, 404, "Unknown queueId"),
    ({"json": {"queueId": "x' or 1=1", "userId": "ada"}}, 404, "Unknown queueId"),
    ({"json": {"queueId": "9" * 40, "userId": "ada"}}, 404, "Unknown queueId"),
    ({"json": {"queueId": -1, "userId": "ada"}}, 404, "Unknown queueId"),
]


@pytest.mark.rows("000-28", "000-33", "000-T8")
def test_bad_input_has_its_answers_and_changes_nothing(caller: Caller, place: Place) -> None:
    for given, status, error in BAD:
        answer = caller.send(**given)
        assert (answer.status_code, answer.json()["error"]) == (status, error), given
    text = {"content-type": "application/json"}
    for content in (b"{", b"\xff", b"nonsense"):
        answer = caller.send(content=content, headers=text)
        assert answer.status_code == 500, content
        assert answer.json()["error"] == "Process user failed"
        assert answer.json()["message"]
    huge = caller.send(content=b'{"queueId": "' + b"9" * 2_000_000 + b'"}', headers=text)
    assert huge.status_code == 413
    assert place.app.jobs() == []


@pytest.mark.rows("000-T8")
def test_a_row_of_another_user_or_of_another_kind_is_refused(caller: Caller, place: Place) -> None:
    first, second = place.person(), place.person()
    job = ready(place, first)

    answer = caller.post(queueId=str(job.id), userId=second.id)

    assert answer.status_code == 409
    assert job.refresh().phase == "ready"
    place.h.advance("15m")
    report = place.app.jobs(task="streaks.report")[0]
    assert caller.post(queueId=str(report.id), userId=first.id).status_code == 404


@pytest.mark.rows("000-T18")
def test_what_waits_runs_or_is_unsure_is_said(
    caller: Caller, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = place.person()
    place.t.github.faults.set([{"route": "graphql", "calls": "1", "do": "status", "status": 502}])
    place.t.discord.faults.set([{"route": "execute", "calls": "1", "do": "drop_after"}])
    job = ready(place, person)
    body = {"queueId": str(job.id), "userId": person.id}
    place.h.drain()

    waits = caller.post(**body)
    assert waits.status_code == 202
    assert waits.json() == {"pending": True, **body, "retryAt": "2026-03-04T19:51:00+00:00"}

    place.h.advance("2m")
    unsure = caller.post(**body)
    assert (unsure.status_code, unsure.json()["unsure"]) == (200, True)

    # Without a worker there is no outcome to wait for.
    given = settings_for(place.t, server_secret=Secret(SECRET), patience="0.05s")
    monkeypatch.setattr(part, "_settings", given)
    idle = check.using(key="idle").enqueue(person.id, DAY, place.t.github.url)
    answer = caller.post(queueId=str(idle.id), userId=person.id)
    assert (answer.status_code, answer.json()["pending"]) == (202, True)


@pytest.mark.rows("000-T18")
def test_what_runs_is_left_alone(caller: Caller, place: Place) -> None:
    person = place.person()
    job = ready(place, person)
    place.t.github.faults.set([{"route": "graphql", "calls": "1", "do": "delay", "seconds": 1.5}])
    worker = threading.Thread(target=place.h.drain)
    worker.start()
    wait_until(lambda: place.app.job(job.id).phase == "running")

    answer = caller.post(queueId=str(job.id), userId=person.id)
    worker.join(20)

    assert (answer.status_code, answer.json()["error"]) == (409, "Already processing")
    assert job.refresh().state == "done"


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it never came to be")


@pytest.mark.rows("000-50", "000-51", "000-52", "000-T16")
def test_progress_counts_what_ended_and_rounds_halves_up(caller: Caller, place: Place) -> None:
    gone = place.person()
    place.pause(gone)
    place.app.queue("streaks").pause()
    batch = place.app.batch(check, [(gone.id, DAY, "")] * 8)

    none = caller.get(f"/api/cron/batch/{batch.id}").json()
    batch.jobs()[0].cancel()
    one = caller.get(f"/api/cron/batch/{batch.id}").json()

    assert none == {
        "batchId": str(batch.id),
        "progress": {"pending": 8, "processing": 0, "completed": 0, "failed": 0, "total": 8},
        "percentage": 0,
    }
    assert (one["progress"]["failed"], one["percentage"]) == (1, 13)
    for unknown in ("999999", "x", "9" * 40, "-1"):
        answer = caller.get(f"/api/cron/batch/{unknown}")
        assert answer.status_code == 200
        assert (answer.json()["percentage"], set(answer.json()["progress"].values())) == (0, {0})


@pytest.mark.rows("000-53")
def test_a_database_that_does_not_answer_is_said_in_the_routes_words(
    caller: Caller, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no database")

    monkeypatch.setattr(type(place.app), "aget_batch", broken)
    monkeypatch.setattr(type(place.app), "ajob", broken)

    batch = caller.get("/api/cron/batch/7")
    user = caller.post(queueId="7", userId="ada")

    assert batch.status_code == 500
    assert batch.json() == {"error": "Failed to get batch progress"}
    assert user.status_code == 500
    assert user.json() == {"error": "Process user failed", "message": "no database"}
