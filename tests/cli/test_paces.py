"""`duework paces`: on a database alone, without the code that declared them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duework import Adaptive, App, Quota, Rate, Tick
from duework.cli.out import Out
from duework.cli.shapes.paces import show_pace
from tests.cli.conftest import HOSTILE, Duework, work


@pytest.fixture
def paced(url: str) -> Iterator[App]:
    app = App(url)
    quota = Quota("strava", windows={"15m": 100}, reserve=5)

    @app.task(pace=[quota, Tick(3, "10s"), Adaptive(name="own")])
    async def page() -> None: ...

    @app.task(pace=Rate("5/2s", per="to"))
    async def post(to: str) -> None: ...

    page.enqueue_many([()] * 5)
    post.enqueue_many([("ada",), (HOSTILE,)])
    work(app)
    yield app
    app.close()


def test_paces_are_listed_shown_blocked_and_reset(paced: App, duework: Duework) -> None:
    listed = duework("paces", "list", "--json")
    names = [line["name"] for line in listed.lines]

    assert {"strava", "page:tick", "own", "post:rate[ada]"} <= set(names)
    assert duework("paces", "list", "--prefix", "post", "--json", "--limit", 1).out.count("\n") == 1
    table = duework("paces", "list").out
    assert "strava" in table
    assert "\x1b" not in table
    assert max(map(len, table.splitlines())) <= 80
    assert duework("paces", "show", "strava", "--json").document["used"] == 3

    blocked = duework("paces", "block", "strava", "10m")
    assert blocked.out.startswith("strava blocked for 9m") or "10m" in blocked.out
    assert paced.get_pace("strava").blocked_until is not None
    assert duework("paces", "block", "strava", "0s").code == 0
    assert paced.get_pace("strava").blocked_until is None
    assert duework("paces", "reset", "strava", "--json").document["used"] == 0
    shown = duework("paces", "show", "strava").out
    assert shown.startswith("name ")
    assert "{" not in shown
    assert ["kind", "quota"] in [line.split() for line in shown.splitlines()]
    for name in ("own", "page:tick"):
        assert "{" not in duework("paces", "show", name).out


def test_a_pace_that_the_app_knows_has_a_row_for_each_window(
    paced: App, capsys: pytest.CaptureFixture[str]
) -> None:
    show_pace(Out(as_json=False), paced.get_pace("strava"), paced.now())

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["window", "used", "limit", "ends"] in rows
    assert ["15m", "3", "95"] in [row[:3] for row in rows]


def test_an_adaptive_pace_is_stopped_and_started(paced: App, duework: Duework) -> None:
    assert duework("paces", "stop", "own").out == "own stopped\n"
    assert paced.get_pace("own").stopped
    duework("paces", "start", "own")
    assert not paced.get_pace("own").stopped
    assert duework("paces", "stop", "strava").code != 0


def test_a_pace_that_is_not_there_is_told(paced: App, duework: Duework) -> None:
    for words in (["show", "x"], ["block", "x", "1m"], ["reset", "x"], ["start", "x"]):
        ran = duework("paces", *words)
        assert ran.code == 1
        assert "no pace x" in ran.err
    assert duework("paces", "block", "strava", "soon").code == 78


def test_an_empty_list_says_so(url: str, duework: Duework) -> None:
    app = App(url)
    app.jobs()
    app.close()

    assert duework("paces", "list").out == "no paces yet\n"
