"""Events of Strava: each is a reason to look, none is believed; and the full sync of every week."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import httpx2
import msgspec
import pytest
from starlette.testclient import TestClient

from duework import Secret
from systems.strides import part, pushes, sync
from systems.strides.tests.conftest import NOON, World
from tests.web.conftest import HERE


@pytest.fixture
def http(world: World) -> Iterator[TestClient]:
    given = msgspec.structs.replace(part.settings, push_token=Secret("mine"))
    with patch.object(part, "_settings", given):
        yield TestClient(world.app.asgi(), base_url=HERE)


def tell(http: TestClient, owner: int, kind: str, number: int, **updates: Any) -> int:
    event = {
        "object_type": kind,
        "object_id": number,
        "aspect_type": "update",
        "owner_id": owner,
        "subscription_id": 1,
        "event_time": NOON // 1000,
        "updates": updates,
    }
    return int(http.post(f"/webhooks/strava/{pushes.mark()}", json=event).status_code)


def connected(world: World) -> int:
    world.connect(5004)
    world.finish()
    return len(world.asked())


@pytest.mark.rows("004-X5")
def test_an_event_brings_one_activity_with_its_details_by_one_call(
    world: World, http: TestClient
) -> None:
    connected(world)
    before, calls = world.stored(5004), world.app.get_pace("strava").details["1d"]["used"]
    new = world.strava.add_activity(5004, NOON // 1000 - 90 * 86_400, "Years ago", 1)

    assert tell(http, 5004, "activity", new) == 200
    world.h.drain()

    assert world.stored(5004) == before | {new}
    race = world.races(5004)[new]
    assert (race.event_name, race.description) == ("Years ago", "Felt good.")
    assert race.calories > 0
    assert world.app.get_pace("strava").details["1d"]["used"] - calls == 1


def test_an_event_changes_a_name_and_deletes_what_is_gone_but_not_what_was_corrected(
    world: World, http: TestClient
) -> None:
    connected(world)
    renamed, gone, edited = sorted(world.races(5004))[:3]
    with world.app.transaction() as tx:
        tx.write(
            "update strides_race set event_name = 'Mine', edited = 1 where strava_activity_id = :id",
            id=edited,
        )
    world.strava.edit_activity(5004, renamed, "Another name")
    world.strava.delete_activity(5004, gone)
    world.strava.delete_activity(5004, edited)

    for number in (renamed, gone, edited):
        tell(http, 5004, "activity", number)
    world.h.drain()

    races = world.races(5004)
    assert races[renamed].name == "Another name"
    assert gone not in races
    assert races[edited].event_name == "Mine"
    assert {gone, edited}.isdisjoint(world.stored(5004))


def test_what_an_event_brings_during_a_sync_is_not_taken_for_gone(
    world: World, http: TestClient
) -> None:
    world.strava.add_athlete(6001, 2_500)
    world.connect(6001)
    world.strava.set_limits(read=(8, 1000))
    world.h.drain()
    assert world.chain(6001).state == "active"
    # Newer than what the sync has passed already.
    new = world.strava.add_activity(6001, NOON // 1000 + 60)

    tell(http, 6001, "activity", new)
    world.finish("6h")

    assert new in world.stored(6001)
    assert world.stored(6001) == world.at_strava(6001)


@pytest.mark.parametrize("form", ["revoke", "deauthorize"])
def test_access_that_is_revoked_in_either_form_deletes_everything(
    world: World, http: TestClient, form: str
) -> None:
    connected(world)
    grant = world.strava.tokens.grants[5004]
    with httpx2.Client(trust_env=False) as there:
        if form == "revoke":
            known = (part.settings.client_id, part.settings.client_secret.reveal())
            url = f"{world.strava.url}/oauth/revoke"
            there.post(url, data={"token": grant.refresh}, auth=known)
        else:
            url = f"{world.strava.url}/oauth/deauthorize"
            there.post(url, data={"access_token": grant.access})

    tell(http, 5004, "athlete", 5004, authorized="false")
    world.h.drain()

    assert world.app.secrets.names("strides.") == []
    for table in ("activity", "race", "log"):
        assert world.app.read(f"select 1 from strides_{table}") == []  # noqa: S608 - ours
    assert world.app.read("select id from strides_athlete") == []


def test_an_event_that_lies_about_access_deletes_nothing(world: World, http: TestClient) -> None:
    connected(world)
    before = world.stored(5004)

    tell(http, 5004, "athlete", 5004, authorized="false")
    world.h.drain()

    assert world.stored(5004) == before
    assert world.row(5004).connected == 1


def test_strava_is_answered_and_nobody_else(world: World, http: TestClient) -> None:
    path = f"/webhooks/strava/{pushes.mark()}"
    hub = {"hub.mode": "subscribe", "hub.challenge": "c", "hub.verify_token": "mine"}

    assert http.get(path, params=hub).json() == {"hub.challenge": "c"}
    assert http.get(path, params={**hub, "hub.verify_token": "x"}).status_code == 403
    assert http.get("/webhooks/strava/guessed", params=hub).status_code == 404
    assert http.post("/webhooks/strava/guessed", json={}).status_code in (404, 422)
    # Of athletes that are not here, or numbers that cannot be: taken, and nothing is done.
    assert tell(http, 404, "activity", 1) == 200
    assert tell(http, -1, "activity", 2**70) in (200, 422)
    world.h.drain()
    assert world.strava.log.of("activity") == []


def test_without_a_token_there_are_no_events(world: World) -> None:
    answer = TestClient(world.app.asgi(), base_url=HERE).get("/webhooks/strava/x")

    assert answer.status_code == 404


@pytest.mark.rows("004-X5")
def test_every_week_a_full_sync_finds_what_is_gone(world: World) -> None:
    connected(world)
    ancient = world.strava.add_activity(5004, NOON // 1000 - 90 * 86_400, "Years ago")
    gone = min(world.stored(5004))
    world.strava.delete_activity(5004, gone)

    world.h.advance("4d")

    assert world.stored(5004) == world.at_strava(5004)
    assert ancient in world.stored(5004)
    assert gone not in world.stored(5004)
    assert sync.latest(5004).arguments["kind"] == "full"  # type: ignore[union-attr]
