"""The commands, as an operator types them."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from systems.strides import part
from systems.strides.promises import promises
from systems.strides.seed import seed
from systems.strides.tests.conftest import World


@pytest.fixture
def typed(world: World) -> Any:
    def run(name: str, *words: str) -> tuple[int, str]:
        result = CliRunner().invoke(part.commands[name], list(words))
        return result.exit_code, result.output.strip()

    return run


def test_a_sync_is_started_watched_stopped_and_resumed(world: World, typed: Any) -> None:
    world.strava.set_limits(read=(6, 1000))
    [session] = world.connect(5001)
    world.h.drain()

    assert typed("sync", "5001") == (0, f"{session} is under way already")
    code, told = typed("status")
    assert code == 0
    assert "active, page 2 of 11, 6 %, 598 activities" in told
    assert "quota: 4 of 5 this quarter, 4 of 950 today" in told
    assert typed("cancel", "5001") == (0, "cancelled")
    assert "cancelled, page 2 of 2" in typed("status")[1]
    assert typed("resume", "5001") == (0, "active, after page 1")
    assert typed("cancel", "5001") == (0, "cancelled")
    code, told = typed("sync", "5001", "--full")
    assert (code, told.endswith("started")) == (0, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sync", "1"), "there is no athlete 1"),
        (("cancel", "1"), "athlete 1 has no sync"),
        (("resume", "1"), "athlete 1 has no sync"),
        (("sync", "ada"), "not a valid integer"),
    ],
)
def test_what_cannot_be_done_is_said(typed: Any, words: tuple[str, ...], says: str) -> None:
    code, told = typed(*words)

    assert code != 0
    assert says in told


def test_connect_prints_where_an_athlete_goes(world: World, typed: Any) -> None:
    code, told = typed("connect")

    assert code == 0
    assert told.startswith(f"{world.strava.url}/oauth/authorize?client_id=12345")


def test_what_is_promised_is_what_strava_has(world: World) -> None:
    sessions = seed(world.app, athletes=2, first=5004)
    assert len(sessions) == 2
    assert seed(world.app, athletes=2, first=5004) == []
    assert [each.state for each in promises(world.app)] == ["active", "active"]

    world.finish()

    for promise in promises(world.app):
        assert promise.state == "done"
        listed = world.strava.list_activities(promise.athlete)
        assert promise.activities == {one["id"] for one in listed}
        assert promise.counted == len(listed)
        public = world.strava.list_activities(promise.athlete, private=False)
        assert promise.races >= {one["id"] for one in public if one["workout"] == 1}
        assert promise.races < promise.activities
