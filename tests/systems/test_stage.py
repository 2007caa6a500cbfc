"""The ports of the demo: pages and stand-ins keep out of each other's way, and links name the right one."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from duework import Scaled
from systems.demo.__main__ import main
from systems.demo.stage import (
    SMTP,
    TWINS,
    TWINS_PORT,
    Stage,
    StageError,
    addresses,
    ports_of_twins,
)
from systems.mailroom import settings as mailroom
from systems.reminders.settings import Settings as Reminders
from systems.scout.settings import Settings as Scout
from systems.streaks.settings import Settings as Streaks
from systems.strides.settings import Settings as Strides
from systems.twins import KINDS, smtp


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def stage(tmp_path: Path) -> Callable[[int], Stage]:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    return lambda port: Stage(tmp_path, clock=Scaled(60), url=url, port=port, workers=1)


def test_links_of_the_demo_name_the_port_of_its_pages(stage: Callable[[int], Stage]) -> None:
    made = stage(0)
    base = f"http://127.0.0.1:{made.port}"

    assert made.port
    assert made.environment["REMINDERS_BASE_URL"] == base
    assert made.environment["STRIDES_PUBLIC_URL"] == base


def test_a_port_that_is_taken_is_told_with_what_to_do(
    stage: Callable[[int], Stage], taken: int
) -> None:
    made = stage(taken)

    assert made.port not in {0, taken}
    assert made.remark == (
        f"Port {taken} is taken, so the pages are at {made.port};"
        ' choose another by DEMO_ARGS="--port 9000".'
    )
    assert stage(made.port).remark == ""


@pytest.mark.parametrize("place", [0, 5, TWINS - 1, SMTP])
def test_the_twins_move_away_from_the_port_of_the_pages(
    stage: Callable[[int], Stage], tmp_path: Path, place: int
) -> None:
    made = stage(0)
    made.port = made.first_of_twins() + place
    (tmp_path / "twins.port").unlink()

    assert made.port not in ports_of_twins(made.first_of_twins())
    assert made.first_of_twins() == made.first_of_twins(), "what was chosen once is kept"


def test_twins_of_an_earlier_run_stay_and_the_pages_are_refused_their_ports(
    stage: Callable[[int], Stage],
) -> None:
    made = stage(0)
    first = made.first_of_twins()
    made.port = first + 3

    with pytest.raises(StageError, match=f"{first + 3} is one of the stand-ins'.*--reset"):
        made.first_of_twins()


def test_twins_whose_ports_were_taken_meanwhile_say_which(
    stage: Callable[[int], Stage], tmp_path: Path, taken: int
) -> None:
    (tmp_path / "twins.port").write_text(str(taken - 3))

    with pytest.raises(StageError, match=f"port {taken} of the stand-ins is taken.*--reset"):
        stage(0).first_of_twins()


def test_as_many_ports_are_looked_at_as_there_are_twins() -> None:
    assert 1 + len(KINDS) == TWINS
    assert SMTP == 1 + smtp.APART
    ran = CliRunner().invoke(main, ["--port", "70000"])
    assert ran.exit_code == 2
    assert "0<=x<=65535" in ran.output


def test_every_system_looks_for_its_twins_where_all_of_them_are() -> None:
    places = {name: TWINS_PORT + 1 + number for number, name in enumerate(KINDS)}
    places["smtp"] = TWINS_PORT + SMTP
    theirs = {
        "acs": [mailroom.TWINS["acs"]],
        "resend": [mailroom.TWINS["resend"], Reminders().resend_url, Scout().resend_url],
        "smtp": [mailroom.TWINS["smtp"], Reminders().smtp_url],
        "hooks": [Reminders().hooks_url],
        "github": [Streaks().github_url, Streaks().login_url],
        "discord": [Streaks().discord_url],
        "telegram": [Streaks().telegram_url],
        "strava": [Strides().strava_url],
        "apple": [Scout().apple_url],
        "chat": [Scout().llm_url],
    }

    assert theirs.keys() == places.keys()
    for name, found in theirs.items():
        assert {urlsplit(each).port for each in found} == {places[name]}, name


def test_the_demo_tells_every_system_where_its_twins_are() -> None:
    moved = {name: f"http://127.0.0.1:{9000 + number}" for number, name in enumerate(KINDS)}

    told = addresses(moved)

    for kind, prefix in ((Reminders, "REMINDERS"), (Streaks, "STREAKS"), (Scout, "SCOUT")):
        for name in kind.__struct_fields__:
            if name.endswith("_url") and urlsplit(str(getattr(kind(), name))).port in range(
                8470, 8490
            ):
                assert f"{prefix}_{name.upper()}" in told, name
    assert told["STRIDES_STRAVA_URL"] == moved["strava"]
    assert told["MAILROOM_ENDPOINT"] == moved["acs"]
