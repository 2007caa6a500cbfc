"""People who leave, folders with odd files in them, and an application whose secret was changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from starlette.testclient import TestClient

from duework import NotFound, Secret
from systems.strides import oauth, part
from systems.strides.athlete import CUT_OFF, lose_access
from systems.strides.files import refusals, store, watch
from systems.strides.tests.conftest import World
from systems.strides.tests.test_files import START, fit, packed, rows
from systems.strides.tests.test_pushes import connected, tell
from tests.web.conftest import HERE


@pytest.fixture
def http(world: World) -> Iterator[TestClient]:
    given = msgspec.structs.replace(part.settings, push_token=Secret("mine"))
    with patch.object(part, "_settings", given):
        yield TestClient(world.app.asgi(), base_url=HERE)


def test_who_leaves_is_let_go_also_when_the_applications_secret_was_changed(world: World) -> None:
    connected(world)
    other = msgspec.structs.replace(part.settings, client_secret=Secret("another"))

    with patch.object(part, "_settings", other):
        asyncio.run(oauth.disconnect(5004))

    assert world.app.read("select id from strides_athlete") == []
    assert world.app.secrets.names("strides.") == []


def test_an_event_deletes_nobody_whom_strava_cannot_be_asked_about(
    world: World, http: TestClient
) -> None:
    connected(world)
    before = world.stored(5004)
    asyncio.run(lose_access(5004, CUT_OFF))

    tell(http, 5004, "athlete", 5004, authorized="false")
    world.h.drain()

    assert world.stored(5004) == before
    assert world.row(5004).reason == CUT_OFF


def test_files_of_one_name_are_all_kept_and_odd_ones_hold_up_nobody(
    world: World, tmp_path: Path
) -> None:
    athlete = store.add_athlete("Ada")
    os.mkfifo(tmp_path / "a.fifo")
    (tmp_path / "b.fit").write_bytes(fit())
    (tmp_path / "c.fit").write_bytes(fit(START - 86_400))
    watch.begin(athlete, tmp_path)
    world.h.advance("3m")
    (tmp_path / "b.fit").write_bytes(fit(START - 2 * 86_400))
    world.h.advance("3m")

    assert len(rows(world, athlete)) == 3
    kept = sorted(each.name for each in (tmp_path / "done").iterdir())
    assert kept == ["b-2.fit", "b.fit", "c.fit"]
    assert (tmp_path / "done" / "b.fit").read_bytes() == fit()


def test_a_file_that_cannot_be_put_aside_holds_up_nobody(world: World, tmp_path: Path) -> None:
    athlete = store.add_athlete("Ada")
    (tmp_path / "a.gpx").write_bytes(b"no recording")
    (tmp_path / "b.fit").write_bytes(fit())
    # Where it would be put there is a file, so that the folder cannot be made.
    (tmp_path / "refused").write_bytes(b"")
    watch.begin(athlete, tmp_path)

    world.h.advance("3m")

    assert len(rows(world, athlete)) == 1
    assert (tmp_path / "a.gpx").exists()


def test_nobody_looks_into_the_folder_of_an_athlete_who_is_gone(
    world: World, tmp_path: Path
) -> None:
    athlete = store.add_athlete("Ada")
    watch.begin(athlete, tmp_path)
    asyncio.run(oauth.disconnect(athlete))
    (tmp_path / "a.fit").write_bytes(fit())

    world.h.advance("5m")

    assert (tmp_path / "a.fit").exists()
    with pytest.raises(NotFound):
        world.app.get_schedule(watch.key_of(athlete))


def test_a_table_of_an_archive_that_is_none_refuses_it(world: World) -> None:
    athlete = store.add_athlete("Ada")
    head = b"Filename,Activity ID,Activity Name\nactivities/a.fit,12,"
    wide = packed(("activities.csv", head + b"x" * 200_000), ("activities/a.fit", fit()))
    with pytest.raises(refusals.NotUnderstood, match=r"activities\.csv"):
        store.take(athlete, "export.zip", wide)

    nul = packed(("activities.csv", head + b"a\0b\n"), ("activities/a.fit", fit()))
    assert store.take(athlete, "export.zip", nul).added == 1
