"""The commands as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from systems.streaks.part import part
from systems.streaks.tests.conftest import Place

GOOD = """login,zone,hour,token,discord,telegram_chat,only_at_risk
ada,Europe/London,20,ghp_ada,77/secret,,true
grace,UTC,,,,,
"""


def duework(name: str, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(part.commands[name], words)


def test_people_are_imported_once(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(GOOD)

    first, second = duework("import", str(file)), duework("import", str(file))

    assert first.output == "2 registered, 0 known already\n", first.output
    assert second.output == "0 registered, 2 known already\n"
    ada, grace = place.row("ada"), place.row("grace")
    assert (ada.hour, ada.zone, ada.discord_hook, ada.only_at_risk) == (
        20,
        "Europe/London",
        "77",
        1,
    )
    assert (grace.hour, grace.has_token) == (12, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("login,color\nada,red\n", "the columns are"),
        ("zone\nUTC\n", "the columns are"),
        ("", "the columns are"),
        ("login,hour\nada,1\nbob,late\n", "line 3"),
        ("login,hour\nada,1\nbob,25\n", "line 3: hour"),
        ("login,zone\nada,UTC\n,UTC\n", "line 3"),
    ],
)
def test_a_file_with_a_wrong_line_changes_nothing(
    place: Place, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(text)

    found = duework("import", str(file))

    assert found.exit_code == 1
    assert said in found.output
    assert place.app.read("select * from streaks_person") == []


@pytest.mark.rows("000-X7")
def test_a_check_says_how_the_day_stands_and_when_it_ends(place: Place) -> None:
    place.person(zone="America/New_York")
    place.t.github.contribute("user-001", "2026-03-04", 3)

    found = duework("check", "user-001")

    assert "3 contributions" in found.output
    assert "The day ends in 9:10:00 in America/New_York." in found.output
    assert place.received() == {}
    assert place.app.jobs() == []


def test_a_check_that_tells_is_a_job(place: Place) -> None:
    person = place.person()

    found = duework("check", "USER-001", "--tell")
    place.h.advance("1m")

    assert found.output.startswith("job ")
    assert place.received()["discord", person.discord_hook] == 1


def test_whoever_is_not_there_or_refused_is_said(place: Place) -> None:
    place.person()
    place.t.github.revoke("ghp_user001")

    assert "GitHub refused the token" in duework("check", "user-001").output
    assert isinstance(duework("check", "nobody").exception, Exception)


def test_the_list_has_everybody_in_words_and_as_json(place: Place) -> None:
    place.person()
    place.pause(place.person())

    words, lines = duework("list"), duework("list", "--json")

    assert "user-001" in words.output
    assert "due Wed 20:00" in words.output
    assert "paused" in words.output
    assert [json.loads(line)["login"] for line in lines.output.splitlines()] == [
        "user-001",
        "user-002",
    ]
