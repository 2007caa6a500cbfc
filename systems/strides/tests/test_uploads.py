"""Files by the form of an athlete's page: kept before the answer, taken in once, refused with a reason."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from systems.strides.files import store, uploads
from systems.strides.tests.conftest import World
from systems.strides.tests.test_files import fit, gpx, packed, rows, tcx
from tests.web.conftest import OURS, Browser, Site, check_page


@pytest.fixture
def athlete(world: World) -> int:
    return store.add_athlete("Ada")


@pytest.fixture
def browser(world: World) -> Browser:
    return Site(world.app).browser("operate")


def send(browser: Browser, athlete: int, *files: tuple[str, bytes], **fields: str) -> Any:
    return browser.post(
        f"/strides/athletes/{athlete}/files",
        data={"form": browser.form_key(), "back": f"/strides/athletes/{athlete}", **fields},
        files=[("files", each) for each in files],
        headers=OURS,
    )


def page(browser: Browser, athlete: int) -> str:
    answer = browser.get(f"/strides/athletes/{athlete}")
    assert answer.status_code == 200
    check_page(answer)
    return str(answer.text)


def kept(world: World) -> list[str]:
    return [each.key for each in world.app.blobs.list("strides/uploads/")]


def test_what_a_form_sends_is_kept_before_the_answer_and_taken_in_by_jobs(
    world: World, browser: Browser, athlete: int
) -> None:
    answer = send(browser, athlete, ("run.gpx", gpx()), ("../up/watch.fit", fit(1_771_200_000)))

    assert answer.status_code == 303
    assert len(kept(world)) == 2
    assert rows(world, athlete) == []
    before = page(browser, athlete)
    assert "2 files are taken in" in before
    assert before.count("being taken in") == 2

    world.h.drain()

    assert len(rows(world, athlete)) == 2
    after = page(browser, athlete)
    assert "being taken in" not in after
    assert ">run.gpx<" in after
    assert ">watch.fit<" in after, "no folder that the sender names"
    assert kept(world) == []


def test_a_file_survives_a_worker_that_dies_anywhere_over_it_and_counts_once(
    world: World, browser: Browser, athlete: int
) -> None:
    statement, crashed = 0, True
    while crashed:
        send(browser, athlete, (f"{statement}.fit", fit(1_771_056_000 + 3600 * statement)))
        crashed = world.h.crash_worker(at=statement)
        world.h.advance("10m")
        one = next(each for each in uploads.latest(athlete) if each.row.name == f"{statement}.fit")
        told = (one.row.status, one.row.added, one.row.there_already)
        assert told == ("taken", 1, 0), statement
        statement += 3

    assert statement > 9
    assert len(rows(world, athlete)) == statement // 3
    assert kept(world) == []


def test_the_same_recording_twice_is_there_already(
    world: World, browser: Browser, athlete: int
) -> None:
    send(browser, athlete, ("run.gpx", gpx()), ("run.tcx", tcx()), race="true")
    world.h.drain()

    told = sorted((each.row.added, each.row.there_already) for each in uploads.latest(athlete))
    assert told == [(0, 1), (1, 0)]
    assert len(world.races(athlete)) == 1


def test_a_refused_file_says_why_on_the_page_and_nothing_of_it_is_stored(
    world: World, browser: Browser, athlete: int
) -> None:
    entity = b'<?xml version="1.0"?><!DOCTYPE gpx [<!ENTITY a "b">]><gpx>&a;</gpx>'
    send(
        *(browser, athlete),
        ("up.zip", packed(("a.gpx", gpx()), ("../../b.gpx", gpx()))),
        ("bomb.zip", packed(("a.gpx", b"<" + b" " * 20_000_000))),
        ("entity.gpx", entity),
        ("notes.txt", b"Tuesday: 5 km"),
        ("empty.fit", b""),
    )
    world.h.drain()

    shown = page(browser, athlete)
    assert "leads out of the archive" in shown
    assert "unpacks to far more than it is" in shown
    assert "document type" in shown
    assert shown.count("is neither FIT, TCX, GPX nor an archive of them") == 2
    assert shown.count("refused</") == 5
    assert rows(world, athlete) == []
    assert kept(world) == []


def test_an_archive_tells_how_far_it_is_and_what_was_left_out(
    world: World, browser: Browser, athlete: int
) -> None:
    seen: list[tuple[int, int]] = []
    archive = packed(("a.gpx", gpx()), ("b.fit", b"broken"), ("c.fit", fit(1_771_200_000)))
    send(browser, athlete, ("export.zip", archive))
    tell = uploads.tell

    def told(row: Any, done: int, total: int) -> None:
        tell(row, done, total)
        [one] = uploads.latest(athlete)
        seen.append((one.row.done, one.row.total))

    with patch.object(uploads, "EVERY", 1), patch.object(uploads, "tell", told):
        world.h.drain()

    assert seen == [(0, 0), (1, 3), (2, 3)]
    shown = page(browser, athlete)
    assert "1 file was left out" in shown
    assert "<li>&#39;b.fit&#39; is neither FIT" in shown
    assert len(rows(world, athlete)) == 2


def test_no_file_or_no_such_zone_or_athlete_is_said_at_once_and_nothing_is_kept(
    world: World, browser: Browser, athlete: int
) -> None:
    for fields, files, words in (
        ({}, [("", b"")], "Choose a file first"),
        ({"zone": "Mars/Olympus"}, [("a.gpx", gpx())], "There is no time zone"),
    ):
        send(browser, athlete, *files, **fields)
        assert words in page(browser, athlete)
    send(browser, 4711, ("a.gpx", gpx()))

    assert uploads.latest(athlete) == []
    assert kept(world) == []


def test_a_zone_is_for_the_times_of_a_file_that_name_none(
    world: World, browser: Browser, athlete: int
) -> None:
    bare = gpx(time="2026-02-14T08:{:02}:00")
    send(browser, athlete, ("a.gpx", bare))
    world.h.drain()
    [refused] = uploads.latest(athlete)
    send(browser, athlete, ("a.gpx", bare), zone="Asia/Kolkata")
    world.h.drain()

    assert refused.row.status == "refused"
    [(start, *_)] = rows(world, athlete)
    assert start == 1_771_056_000 - 19_800


def test_an_athlete_who_leaves_takes_the_files_along(
    world: World, browser: Browser, athlete: int
) -> None:
    send(browser, athlete, ("a.gpx", gpx()))
    browser.submit(f"/strides/athletes/{athlete}/disconnect", sure="yes")
    world.h.drain()

    assert world.app.read("select * from strides_athlete") == []
    assert kept(world) == []


def test_a_job_that_cannot_be_done_leaves_no_file_that_waits(
    world: World, browser: Browser, athlete: int
) -> None:
    send(browser, athlete, ("a.gpx", gpx()))
    with patch.object(store, "read", side_effect=MemoryError("no room")):
        world.h.advance("1d")
    [failed] = uploads.latest(athlete)
    [job] = world.app.jobs(task="strides.take_in")
    job.retry()
    world.h.drain()

    assert failed.row.status == "refused"
    assert "no room); send it again" in failed.row.reason
    [one] = uploads.latest(athlete)
    assert (one.row.status, one.row.added) == ("taken", 1)


def test_what_was_sent_and_is_over_is_asked_for_again(
    world: World, browser: Browser, athlete: int
) -> None:
    send(browser, athlete, ("a.gpx", gpx()))
    for key in kept(world):
        world.app.blobs.delete(key)
    world.h.drain()

    assert "send it again" in page(browser, athlete)
