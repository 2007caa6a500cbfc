"""Routes for programs: what they answer, and what they answer to nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from systems.strides import sync
from systems.strides.tests.conftest import NOON, World
from tests.web.conftest import HERE, Site

SECRET = {"x-internal-secret": "inside"}


@pytest.fixture
def http(world: World) -> TestClient:
    token = Site(world.app).token("operate")
    headers = {"authorization": f"Bearer {token}"}
    return TestClient(world.app.asgi(), base_url=HERE, headers=headers, follow_redirects=False)


@pytest.mark.rows("004-33", "004-34", "004-T4")
def test_progress_lists_the_batches_in_order_and_sums_them_up(
    world: World, http: TestClient
) -> None:
    world.strava.set_limits(read=(6, 1000))
    [session] = world.connect(5001)
    path = f"/api/admin/sync/{session}/progress"
    first = http.get(path).json()
    world.h.advance("16m")

    told = http.get(path).json()

    assert first["summary"]["estimated_progress"] is None
    assert [each["status"] for each in first["batches"]] == ["pending"]
    assert [(each["batch_number"], each["status"]) for each in told["batches"]] == [
        (1, "completed"),
        (2, "completed"),
        (3, "pending"),
    ]
    one, summary = told["batches"][1], told["summary"]
    assert (one["started_at"], one["completed_at"]) == (NOON + 900_000, NOON + 900_000)
    assert (one["strava_rate_limit_15min"], one["strava_rate_limit_daily"]) == (5, 9)
    assert one["error_message"] is None
    assert summary["total_batches"] == 11
    assert (summary["completed_batches"], summary["current_batch"]) == (2, 3)
    assert summary["total_activities"] == len(world.stored(5001))
    assert summary["total_races"] == summary["races_added"] == len(world.races(5001))
    assert summary["estimated_progress"] == pytest.approx(0.179, abs=0.02)


@pytest.mark.rows("004-33")
def test_progress_says_done_and_why_it_failed(world: World, http: TestClient) -> None:
    [session] = world.connect(5004)
    world.faults({"route": "activities", "calls": "1..", "do": "status", "status": 502})
    world.finish()
    path = f"/api/admin/sync/{session}/progress"

    failed = http.get(path).json()
    world.faults()
    assert http.post(f"/api/admin/sync/{session}/retry").json() == {"state": "active"}
    world.finish()
    done = http.get(path).json()

    assert failed["batches"][0]["status"] == "failed"
    assert "answered 502" in failed["batches"][0]["error_message"]
    assert "\n" not in failed["batches"][0]["error_message"]
    assert done["summary"]["estimated_progress"] == 1
    assert done["summary"]["total_batches"] == done["summary"]["completed_batches"]
    logs = http.get(f"/api/admin/sync/{session}/logs").json()
    assert [line["level"] for line in logs][-1] == "success"


def test_syncs_are_started_cancelled_and_resumed(world: World, http: TestClient) -> None:
    world.connect(5004)
    world.finish()

    started = http.post("/api/admin/athletes/5004/sync", json={"full_sync": True})
    again = http.post("/api/admin/athletes/5004/sync", json={})

    session = started.json()["session"]
    assert (started.status_code, started.json()["existed"]) == (202, False)
    assert again.json() == {**started.json(), "existed": True}
    assert http.post(f"/api/admin/sync/{session}/cancel").json() == {"state": "cancelled"}
    assert http.post(f"/api/admin/sync/{session}/cancel").json() == {"state": "cancelled"}
    assert http.post(f"/api/admin/sync/{session}/resume").json() == {"state": "active"}
    world.finish()
    answer = http.post(f"/api/admin/sync/{session}/resume")
    assert (answer.status_code, "start a new one" in answer.text) == (409, True)


@pytest.mark.rows("004-18", "004-19", "004-31")
def test_a_batch_that_is_not_pending_is_refused_in_the_articles_words(
    world: World, http: TestClient
) -> None:
    [session] = world.connect(5004)

    def ask(number: int, athlete: int = 5004, name: str = session) -> tuple[int, Any]:
        body = {"athleteId": athlete, "sessionId": name, "batchNumber": number}
        answer = http.post("/internal/process-batch", json=body, headers=SECRET)
        return answer.status_code, answer.json()

    waiting = ask(1)
    world.finish()

    assert waiting == (202, {"batchNumber": 1, "status": "pending"})
    assert ask(1) == (404, {"error": "Batch 1 not found or not pending"})
    assert ask(99) == (404, {"error": "Batch 99 not found or not pending"})
    assert ask(0) == (404, {"error": "Batch 0 not found or not pending"})
    assert ask(1, athlete=5005) == (404, {"error": "Batch 1 not found or not pending"})
    assert ask(1, name="sync-1-1") == (404, {"error": "Batch 1 not found or not pending"})


@pytest.mark.rows("004-31")
def test_the_internal_route_wants_its_own_secret(world: World, http: TestClient) -> None:
    body = {"athleteId": 1, "sessionId": "sync-1-1", "batchNumber": 1}

    for headers in ({}, {"x-internal-secret": "wrong"}, {"x-internal-secret": ""}):
        answer = http.post("/internal/process-batch", json=body, headers=headers)
        assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})


def test_races_are_found_by_athlete_event_distance_and_date(world: World, http: TestClient) -> None:
    world.connect(5004, 5005)
    world.finish()
    every = [*world.races(5004).values(), *world.races(5005).values()]

    def found(**query: Any) -> list[dict[str, Any]]:
        return http.get("/api/races", params={"limit": 500, **query}).json()

    assert len(found()) == len(every)
    assert {race["athlete_id"] for race in found(athlete=5004)} == {5004}
    assert len(found(athlete=5004)) == len(world.races(5004))
    assert {race["distance_class"] for race in found(distance="10 km")} == {"10 km"}
    assert len(found(event="RIVERSIDE")) == sum("Riverside" in race.name for race in every)
    assert found(event="%") == found()
    days = sorted(race["date"] for race in found())
    assert min(race["date"] for race in found(since=days[3])) == days[3]
    assert max(race["date"] for race in found(until=days[3])) == days[3]
    assert found(limit=1, offset=1) == found()[1:2]
    assert "polyline" not in found()[0]


def test_athletes_are_listed_without_anything_secret(world: World, http: TestClient) -> None:
    world.connect(5004)
    world.finish()

    [one] = http.get("/api/athletes").json()

    assert (one["id"], one["sync_status"], one["races"]) == (
        5004,
        "completed",
        len(world.races(5004)),
    )
    assert not any("token" in name for name in one)


BAD = [
    ("GET", "/api/admin/sync/nonsense/progress", None, 404),
    ("GET", "/api/admin/sync/sync-5004-/progress", None, 404),
    ("GET", "/api/admin/sync/sync-5004-99999999999999999999999/progress", None, 404),
    ("GET", "/api/admin/sync/sync-%00-1/progress", None, 404),
    ("GET", "/api/admin/sync/sync-5004-1/logs", None, 404),
    ("POST", "/api/admin/sync/sync-5004-1/progress", {}, 405),
    ("POST", "/api/admin/sync/sync-5004-1/cancel", None, 404),
    ("POST", "/api/admin/sync/sync-5004-1/resume", None, 404),
    ("POST", "/api/admin/sync/sync-5004-1/retry", None, 404),
    ("POST", "/api/admin/athletes/1/sync", {}, 404),
    ("POST", "/api/admin/athletes/-1/sync", {}, 404),
    ("POST", "/api/admin/athletes/ada/sync", {}, 404),
    ("POST", "/api/admin/athletes/99999999999999999999/sync", {}, 404),
    ("POST", "/api/admin/athletes/5004/sync", {"full_sync": "perhaps"}, 422),
    ("POST", "/api/admin/athletes/5004/sync", [1], 422),
    ("POST", "/api/admin/athletes/5004/sync", "{", 400),
    ("GET", "/api/races?limit=many", None, 422),
    ("GET", "/api/races?athlete=99999999999999999999", None, 422),
    ("GET", "/api/races?offset=99999999999999999999", None, 422),
    ("GET", "/api/races?since=%00", None, 400),
    ("GET", "/api/races?since=2026-13-45x", None, 422),
    ("GET", "/api/races?event=a%00b", None, 400),
    ("GET", "/api/races?distance=a%00b", None, 400),
    ("GET", "/api/races?limit=-1", None, 422),
    ("POST", "/internal/process-batch", {}, 422),
    ("POST", "/internal/process-batch", {"athleteId": "x"}, 422),
]


def test_nonsense_is_answered_with_what_is_wrong_and_changes_nothing(
    world: World, http: TestClient
) -> None:
    world.connect(5004)
    before = [tuple(row) for row in world.app.read("select * from strides_athlete")]
    headers = {**SECRET, "content-type": "application/json"}

    for method, path, body, status in BAD:
        sent: dict[str, Any] = {"content": body} if isinstance(body, str) else {"json": body}
        answer = http.request(method, path, headers=headers, **sent)
        assert answer.status_code == status, (path, body, answer.text)
        assert "Traceback" not in answer.text

    assert [tuple(row) for row in world.app.read("select * from strides_athlete")] == before
    assert len(world.app.chains()) == 1


PROTECTED = [
    ("GET", "/api/admin/sync/sync-5004-1/progress"),
    ("GET", "/api/admin/sync/sync-5004-1/logs"),
    ("POST", "/api/admin/sync/sync-5004-1/cancel"),
    ("POST", "/api/admin/sync/sync-5004-1/resume"),
    ("POST", "/api/admin/sync/sync-5004-1/retry"),
    ("POST", "/api/admin/athletes/5004/sync"),
    ("GET", "/api/races"),
    ("GET", "/api/athletes"),
]


def test_nobody_gets_in_without_a_token_that_is_good_enough(world: World) -> None:
    token = Site(world.app).token("read")
    stranger = TestClient(world.app.asgi(), base_url=HERE)
    reader = TestClient(
        world.app.asgi(), base_url=HERE, headers={"authorization": f"Bearer {token}"}
    )

    for method, path in PROTECTED:
        assert stranger.request(method, path).status_code == 401
        if method == "POST":
            assert reader.request(method, path).status_code == 403


def test_a_session_of_an_athlete_that_left_is_not_found_again(world: World) -> None:
    [session] = world.connect(5004)
    assert sync.chain_of(session).arguments["athlete"] == 5004
    assert sync.latest(5005) is None
