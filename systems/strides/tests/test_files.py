"""Files as a way in: each format to the same numbers, each once, and attacks refused by their type."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from systems.strides import sync
from systems.strides.files import refusals, store, watch
from systems.strides.files.fit import EPOCH, checksum
from systems.strides.tests.conftest import NOON, World
from tests.web.conftest import HERE, Site

# Saturday, 14 February 2026, 08:00 UTC.
START = 1_771_056_000


def gpx(
    name: str = "Bushy parkrun", minutes: int = 25, time: str = "2026-02-14T08:{:02}:00Z"
) -> bytes:
    """Five kilometres to the north, a fifth of a kilometre a minute."""
    step = 200 / 111_195
    points = "".join(
        f'<trkpt lat="{51 + step * n:.7f}" lon="0"><ele>{10 + n}</ele>'
        f"<time>{time.format(n)}</time><extensions><a:hr>{150 + n}</a:hr></extensions></trkpt>"
        for n in range(minutes + 1)
    )
    track = f"<trk><name>{name}</name><type>running</type><trkseg>{points}</trkseg></trk>"
    return f'<?xml version="1.0"?><gpx xmlns:a="a">{track}</gpx>'.encode()


def tcx() -> bytes:
    points = "".join(
        f"<Trackpoint><Time>2026-02-14T08:{n:02}:00Z</Time>"
        f"<HeartRateBpm><Value>{150 + n}</Value></HeartRateBpm></Trackpoint>"
        for n in range(26)
    )
    lap = f"<TotalTimeSeconds>1500</TotalTimeSeconds><DistanceMeters>5000</DistanceMeters>{points}"
    inside = f'<Activities><Activity Sport="Running"><Lap>{lap}</Lap></Activity></Activities>'
    return f"<TrainingCenterDatabase>{inside}</TrainingCenterDatabase>".encode()


def fit(start: int = START, ahead: int = 0) -> bytes:
    """A session and an activity, as a watch ends its file."""
    session = bytes([0x40, 0, 0, 18, 0, 5, 2, 4, 0x86, 5, 1, 0, 7, 4, 0x86, 8, 4, 0x86, 9, 4, 0x86])
    at = start - EPOCH
    session += bytes([0]) + struct.pack("<IBIII", at, 1, 1_500_000, 1_490_000, 500_000)
    activity = bytes([0x41, 0, 0, 34, 0, 2, 253, 4, 0x86, 5, 4, 0x86])
    activity += bytes([1]) + struct.pack("<II", at + 1500, at + 1500 + ahead)
    body = session + activity
    whole = struct.pack("<BBHI4sH", 14, 32, 2100, len(body), b".FIT", 0) + body
    return whole + struct.pack("<H", checksum(whole))


def packed(*files: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return out.getvalue()


def rows(world: World, athlete: int) -> list[tuple[object, ...]]:
    found = world.app.read(
        "select start, day, sport, round(distance) as metres, moving_time from strides_activity"
        " where athlete_id = :id order by start",
        id=athlete,
    )
    return [(row.start, row.day, row.sport, int(row.metres), row.moving_time) for row in found]


@pytest.mark.parametrize(
    ("content", "moving"),
    [(gpx(), 1500), (tcx(), 1500), (fit(), 1490), (gzip.compress(fit(), mtime=0), 1490)],
    ids=["gpx", "tcx", "fit", "fit.gz"],
)
def test_every_format_says_the_same_of_a_run(world: World, content: bytes, moving: int) -> None:
    athlete = store.add_athlete("Ada")

    taken = store.take(athlete, "run", content)

    assert (taken.added, taken.there_already, taken.left_out) == (1, 0, {})
    [row] = rows(world, athlete)
    assert row[:3] == (START, "2026-02-14", "Run")
    assert abs(int(str(row[3])) - 5000) <= 10
    assert row[4] == moving


def test_a_parkrun_from_a_file_is_a_race_and_one_that_is_said_to_be_one_is(world: World) -> None:
    athlete = store.add_athlete("Ada")

    store.take(athlete, "a.gpx", gpx())
    store.take(athlete, "b.fit", fit(START - 86_400 + 6 * 3600), race=True)
    store.take(athlete, "c.fit", fit(START - 2 * 86_400))

    assert sorted(race.event_name for race in world.races(athlete).values()) == [
        "Run of 2026-02-13",
        "parkrun",
    ]
    assert len(rows(world, athlete)) == 3


def test_the_same_run_is_taken_once_in_whatever_format(world: World) -> None:
    athlete = store.add_athlete("Ada")
    store.take(athlete, "a.gpx", gpx())

    again = [store.take(athlete, "x", content) for content in (gpx(), tcx(), fit())]

    assert [(each.added, each.there_already) for each in again] == [(0, 1)] * 3
    assert len(rows(world, athlete)) == 1


def test_an_export_archive_keeps_stravas_names_and_numbers(world: World) -> None:
    athlete = store.add_athlete("Ada")
    listing = (
        b"Activity ID,Activity Date,Activity Name,Filename\n"
        b'77,"14 Feb 2026",Spring race,activities/77.fit.gz\n'
    )
    archive = packed(
        ("activities.csv", listing),
        ("activities/77.fit.gz", gzip.compress(fit())),
        ("activities/78.gpx", gpx(time="2026-02-15T08:{:02}:00Z")),
        ("activities/79.gpx", b"<gpx></gpx>"),
        ("media/a.jpg", b"\xff\xd8"),
    )

    taken = store.take(athlete, "export.zip", archive, race=True)

    assert (taken.added, list(taken.left_out)) == (2, ["activities/79.gpx"])
    races = world.races(athlete)
    assert races[77].name == "Spring race"
    assert [identifier < 0 for identifier in sorted(races)] == [True, False]


def test_a_day_is_the_one_on_the_wall_where_it_was_run(world: World) -> None:
    athlete = store.add_athlete("Ada")
    late = START + 15 * 3600 + 1800

    store.take(athlete, "a.fit", fit(late, ahead=19_800))
    store.take(athlete, "b.fit", fit(late - 86_400), zone="Europe/London")
    store.take(athlete, "c.gpx", gpx(time="2026-02-10T23:{:02}:00Z"), zone="Asia/Kolkata")
    store.take(athlete, "d.gpx", gpx(time="2026-02-08T00:{:02}:00"), zone="America/New_York")

    assert [row[1] for row in rows(world, athlete)] == [
        "2026-02-08",
        "2026-02-11",
        "2026-02-13",
        "2026-02-15",
    ]


LAUGHS = (
    b'<!DOCTYPE gpx [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><gpx><trk><name>&b;</name></trk></gpx>'
)
OUTSIDE = b'<!DOCTYPE gpx SYSTEM "file:///etc/passwd"><gpx></gpx>'


def bomb() -> bytes:
    return packed(("good.fit", fit()), ("bomb.gpx", b" " * 30_000_000))


def link() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link.gpx")
        info.external_attr = 0o120777 << 16
        archive.writestr("good.fit", fit())
        archive.writestr(info, "/etc/passwd")
    return out.getvalue()


REFUSED = [
    (LAUGHS, refusals.EntitiesRefused),
    (OUTSIDE, refusals.EntitiesRefused),
    (packed(("good.fit", fit()), ("a.gpx", LAUGHS)), refusals.EntitiesRefused),
    (bomb(), refusals.ZipBomb),
    (gzip.compress(b" " * 26_000_000), refusals.ZipBomb),
    (packed(("good.fit", fit()), ("../../a.gpx", gpx())), refusals.OutsideTheArchive),
    (packed(("good.fit", fit()), ("/a.gpx", gpx())), refusals.OutsideTheArchive),
    (packed(("good.fit", fit()), ("C:\\a.gpx", gpx())), refusals.OutsideTheArchive),
    (link(), refusals.OutsideTheArchive),
    (b"<gpx>" + b" " * 25_000_000, refusals.TooLarge),
    (gpx(time="2026-02-14T08:{:02}:00"), refusals.WrongTime),
    (gpx(time="2031-02-14T08:{:02}:00Z"), refusals.WrongTime),
    (packed(("good.fit", fit()), ("a.fit", fit(EPOCH + 2**31 + 1))), refusals.WrongTime),
    (gpx(time="noon {}"), refusals.NotUnderstood),
    (fit()[:-3], refusals.NotUnderstood),
    (fit()[:-1] + b"\0", refusals.NotUnderstood),
    (b"<html></html>", refusals.NotUnderstood),
    (b"<a>" * 1000, refusals.NotUnderstood),
    (b"<gpx>" * 1000, refusals.NotUnderstood),
    (b"PK\x03\x04 and then nothing", refusals.NotUnderstood),
    (b"", refusals.NotUnderstood),
    (b"\x1f\x8bnonsense", refusals.NotUnderstood),
]


def test_what_is_dangerous_or_wrong_is_refused_by_its_type_and_nothing_is_stored(
    world: World,
) -> None:
    athlete = store.add_athlete("Ada")

    for content, kind in REFUSED:
        with pytest.raises(kind) as refused:
            store.take(athlete, "x", content)
        assert type(refused.value) is kind

    with pytest.raises(refusals.WrongTime, match="no time zone"):
        store.take(athlete, "x", gpx(), zone="Mars/Olympus")
    assert rows(world, athlete) == []
    assert world.races(athlete) == {}


def test_a_sync_leaves_files_alone_but_for_what_strava_has_told_us_too(world: World) -> None:
    world.connect(5004)
    world.finish()
    newest = max(world.strava.athletes[5004].activities, key=lambda one: one.start)
    before = world.stored(5004)
    taken = store.take(5004, "old.fit", fit(START - 4_000 * 86_400 + 7))
    again = store.take(5004, "there.fit", fit(newest.start + 30))
    # Uploaded here first, and at Strava later.
    early = NOON // 1000 - 3 * 3600
    store.take(5004, "early.fit", fit(early))
    new = world.strava.add_activity(5004, early + 2)

    sync.start(5004, full=True)
    world.finish()

    assert (taken.added, again.there_already) == (1, 1)
    after = world.stored(5004)
    assert len(after - before) == 2
    assert new in after
    assert [each for each in after if each < 0] == [each for each in after - before if each < 0]


def test_a_program_uploads_files_and_is_told_what_is_wrong(world: World) -> None:
    headers = {"authorization": f"Bearer {Site(world.app).token('operate')}"}
    http = TestClient(world.app.asgi(), base_url=HERE, headers=headers)
    made = http.post("/api/athletes", json={"firstname": "Ada"})
    path = f"/api/athletes/{made.json()['id']}/files"

    good = http.post(path, params={"race": "true"}, content=fit())
    bad = http.post(path, content=LAUGHS)

    assert made.status_code == 201
    assert good.json() == {"added": 1, "there_already": 0, "races": 1, "left_out": {}}
    assert bad.status_code == 400
    assert "document type" in bad.json()["detail"]
    assert http.post("/api/athletes/404/files", content=fit()).status_code == 404
    assert http.post("/api/athletes", json={"firstname": " "}).status_code == 400


def test_a_watched_folder_is_emptied_into_done_and_refused(world: World, tmp_path: Path) -> None:
    athlete = store.add_athlete("Ada")
    (tmp_path / "a.fit").write_bytes(fit())
    (tmp_path / "b.gpx").write_bytes(LAUGHS)
    (tmp_path / "c.fit").symlink_to(tmp_path / "a.fit")
    (tmp_path / ".d.fit").write_bytes(fit())
    watch.begin(athlete, tmp_path)

    world.h.advance("3m")

    assert len(rows(world, athlete)) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == [".d.fit", "done", "refused"]
    assert [each.name for each in (tmp_path / "done").iterdir()] == ["a.fit"]
    why = (tmp_path / "refused" / "b.gpx.txt").read_text()
    assert why.startswith("EntitiesRefused: ")
    assert (tmp_path / "refused" / "c.fit.txt").exists()


def test_a_file_that_still_grows_is_left_alone_and_one_that_was_stored_is_moved_later(
    world: World, tmp_path: Path
) -> None:
    athlete = store.add_athlete("Ada")
    path = tmp_path / "a.fit"
    path.write_bytes(fit()[:20])
    watch.look_into(athlete, str(tmp_path), "")
    path.write_bytes(fit())
    watch.look_into(athlete, str(tmp_path), "")
    assert path.exists()
    # As if the process had died between the store and the move.
    store.take(athlete, "a.fit", fit())

    counts = watch.look_into(athlete, str(tmp_path), "")

    assert counts == {"taken": 1, "refused": 0}
    assert (tmp_path / "done" / "a.fit").exists()
    assert len(rows(world, athlete)) == 1
