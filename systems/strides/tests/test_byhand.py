"""Races typed in or pasted, and what an operator sees and puts right."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from systems.strides import sync
from systems.strides.files.store import add_athlete
from systems.strides.tests.conftest import World
from tests.web.conftest import HERE, Browser, Site, check_page

PASTE = """Event\tRun Date\tRun Number\tPos\tTime\tAge Grade\tPB?
Bushy\t13/02/2010\t1000\t12\t24:31\t60.1%\t
Bushy\t06/02/2010\t999\t15\t1:01:02\t55.0%\tPB
"""


@pytest.fixture
def browser(world: World) -> Browser:
    return Site(world.app).browser("operate")


@pytest.mark.rows("004-X6")
def test_parkruns_are_pasted_once_and_a_race_is_typed_in(world: World, browser: Browser) -> None:
    world.connect(5004)
    world.finish()
    before = set(world.races(5004))
    path = "/strides/athletes/5004"
    race = {"date": "2019-05-01", "event": "Old race", "minutes": "41", "seconds": "8"}

    for _ in range(2):
        browser.submit(f"{path}/parkruns", lines=PASTE)
        browser.submit(f"{path}/add", **race, kilometres="10")
    sync.start(5004, full=True)
    world.finish()

    check_page(browser.get(path))
    races = world.races(5004)
    new = sorted((races[each] for each in set(races) - before), key=lambda row: row.date)
    assert [(row.date, row.event_name, row.elapsed_time) for row in new] == [
        ("2010-02-06", "parkrun", 3_662),
        ("2010-02-13", "parkrun", 1_471),
        ("2019-05-01", "Old race", 2_468),
    ]
    assert before <= set(races)


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("parkruns", {"lines": "nothing of use"}),
        ("parkruns", {"lines": "Bushy\t14/02/2026\tno time"}),
        ("parkruns", {"lines": "Bushy\t31/02/2026\t24:31"}),
        ("parkruns", {"lines": "Bushy\t14/02/2031\t24:31"}),
        ("add", {"date": "soon", "event": "A", "minutes": "1", "seconds": "1", "kilometres": "1"}),
        (
            "add",
            {"date": "2020-01-01", "event": " ", "minutes": "1", "seconds": "1", "kilometres": "1"},
        ),
        (
            "add",
            {"date": "2020-01-01", "event": "A", "minutes": "0", "seconds": "0", "kilometres": "1"},
        ),
        (
            "add",
            {
                "date": "2020-01-01",
                "event": "A",
                "minutes": "1",
                "seconds": "1",
                "kilometres": "nan",
            },
        ),
    ],
)
def test_what_makes_no_sense_adds_nothing(
    world: World, browser: Browser, action: str, fields: dict[str, str]
) -> None:
    number = add_athlete("Ada")

    browser.submit(f"/strides/athletes/{number}/{action}", **fields)

    assert world.races(number) == {}


@pytest.mark.rows("004-X4")
def test_an_operator_sees_who_is_stuck_and_puts_it_right(world: World) -> None:
    headers = {"authorization": f"Bearer {Site(world.app).token('operate')}"}
    http = TestClient(world.app.asgi(), base_url=HERE, headers=headers)
    world.connect(5004, 5005)
    during = http.get("/api/admin/health").json()
    refused = http.post("/api/admin/athletes/5004/reset")
    world.finish()
    with world.app.transaction() as tx:
        tx.write("update strides_athlete set sync_status = 'in_progress' where id = 5004")

    stuck = http.get("/api/admin/health").json()
    done = http.post("/api/admin/athletes/5004/reset").json()

    assert (during["healthy"], during["syncs"], during["queue"]) == (True, 2, {"pending": 2})
    assert refused.status_code == 409
    assert (stuck["healthy"], stuck["stuck"], stuck["queue"]) == (False, [5004], {})
    assert done == {"reset": True}
    assert http.get("/api/admin/health").json()["healthy"]
    assert world.row(5004).sync_error == "Reset by an operator"
    assert http.post("/api/admin/athletes/404/reset").status_code == 404
    assert not sync.start(5004).existed
