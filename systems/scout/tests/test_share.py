"""What leaves scout: reports behind links, CSV and JSON, briefs; and commands, as wide as a terminal."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from click.testing import CliRunner

from duework import NotFound, UsageError
from systems.scout.desk import exports, reports, stars
from systems.scout.desk.shown import report_body
from systems.scout.part import part
from systems.scout.tests.conftest import World
from systems.scout.tests.found import DAY, an_app, found, insert, reviews
from systems.scout.tests.test_web import client, operator, program
from tests.web.conftest import Browser

__all__ = ["operator", "program"]
HOSTILE = '<script>alert(1)</script>=cmd|" /C calc"!A0'


def run(*words: str) -> Any:
    return CliRunner().invoke(part.commands[words[0]], words[1:])


@pytest.mark.rows("001-X2")
def test_a_report_opens_by_its_link_alone_without_a_cookie_until_it_is_revoked(
    world: World, operator: Browser
) -> None:
    found(world.app, world.h.now)
    reviews(world.app, world.h.now, [(1, "calendar breaks"), (1, "calendar breaks")])
    made = operator.submit("/scout/opportunities/c1/share", days="7", back="/scout/")
    assert made.status_code == 303, made.text
    link = made.headers["location"]
    token = link.rpartition("/")[2]
    assert len(token) >= 32
    stranger = client(world)
    page = stranger.get(link)
    assert page.status_code == 200
    assert "set-cookie" not in page.headers
    assert dict(stranger.cookies) == {}
    assert "<script" not in page.text
    for text in ("sleep timer", "60 ratings over 3 apps", "calendar breaks", "Sleep timer 3"):
        assert text in page.text
    # Of the link only a hash is stored.
    [row] = world.app.read("select * from scout_report")
    assert token not in json.dumps(row._asdict())
    for wrong in (token[:-1], token + "x", "", "x" * 5000, "%00", reports.hashed(token)):
        assert stranger.get(f"/scout/r/{wrong}").status_code in {404, 307, 303}, wrong
    # It is a copy: what scout learns later is not in it.
    with world.app.transaction() as tx:
        tx.write("update scout_opportunity set name = 'another name'")
    assert "another name" not in stranger.get(link).text
    assert "another name" in operator.get("/scout/opportunities/c1").text
    assert row.id in operator.get("/scout/saved").text
    asked = operator.submit("/scout/revoke", id=row.id, back="/scout/saved")
    assert asked.status_code == 200, "it asks first"
    assert stranger.get(link).status_code == 200
    assert (
        operator.submit("/scout/revoke", id=row.id, back="/scout/saved", sure="yes").status_code
        == 303
    )
    assert stranger.get(link).status_code == 404


def test_a_report_ends_by_itself_and_lasts_a_year_at_most(world: World) -> None:
    found(world.app, world.h.now)
    with world.app.transaction() as tx:
        token = reports.make(tx, report_body("c1"), world.h.now, 7)
        for days in (0, 366, -1):
            with pytest.raises(UsageError):
                reports.make(tx, report_body("c1"), world.h.now, days)
    end = world.h.now + 7 * DAY
    assert reports.shown(token, end - 1)["it"]["name"] == "sleep timer"
    with pytest.raises(NotFound):
        reports.shown(token, end)
    assert reports.listed(end) == []
    with world.app.transaction() as tx:
        reports.make(tx, report_body("c1"), end)
    assert world.count("scout_report") == 1, "what is over is forgotten"
    with pytest.raises(NotFound):
        report_body("nobody")


@pytest.mark.rows("001-X2")
def test_everything_listed_can_be_taken_away_and_no_cell_is_a_formula(
    world: World, program: Browser, operator: Browser
) -> None:
    found(world.app, world.h.now)
    with world.app.transaction() as tx:
        for place, name in enumerate(("=1+1", "+2", "-3", "@x", 'plain, with "quotes"\nand lines')):
            insert(tx, "scout_app", [an_app(50 + place, world.h.now, track_name=name)])
    answer = program.get("/v1/export/apps.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="apps.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 17
    names = {row["track_name"] for row in rows}
    assert {"'=1+1", "'+2", "'-3", "'@x", 'plain, with "quotes"\nand lines'} <= names
    whole = program.get("/v1/export/apps.json").json()
    assert {each["track_name"] for each in whole} >= {"=1+1", "+2"}
    for what in ("keywords", "clusters", "opportunities"):
        assert len(program.get(f"/v1/export/{what}.json").json()) >= 1
    one = program.get("/v1/export/opportunities.json").json()[0]
    assert (one["demand"], one["verdict"]) == (80.0, "build")
    assert operator.get("/scout/export/opportunities.csv").text.startswith("cluster,name,score")
    for bad in ("apps.xml", "people.csv", "apps", ".csv", "opportunities.csv?after=5"):
        assert program.get(f"/v1/export/{bad}").status_code in {400, 404}, bad
    assert client(world).get("/v1/export/apps.csv").status_code == 401
    assert client(world).get("/scout/export/apps.csv").status_code == 303


def test_an_export_that_is_full_says_where_the_next_one_begins(
    world: World, program: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.app.transaction() as tx:
        insert(tx, "scout_app", [an_app(n, world.h.now) for n in range(1, 121)])
    rows, more = exports.rows_of("apps", most=100)
    rest, end = exports.rows_of("apps", more or "", most=100)
    assert (len(rows), len(rest), end) == (100, 20, None)
    assert len({row["track_id"] for row in rows + rest}) == 120
    monkeypatch.setattr(exports.rows_of, "__defaults__", ("", 100))
    full = program.get("/v1/export/apps.json")
    after = full.headers["x-next"]
    assert len(program.get(f"/v1/export/apps.json?after={after}").json()) == 20


@pytest.mark.rows("001-X2")
def test_a_brief_is_markdown_in_which_strangers_words_stay_words(
    world: World, program: Browser
) -> None:
    found(world.app, world.h.now)
    reviews(world.app, world.h.now, [(1, "calendar breaks"), (1, "calendar breaks")])
    with world.app.transaction() as tx:
        tx.write(
            "update scout_app set track_name = :name where track_id = 3",
            name="# Ignore all\n| this | [x](http://x) <b>",
        )
    answer = program.get("/v1/opportunities/c1/brief.md")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    text = answer.text
    assert text.startswith("# Build: sleep timer\n")
    for line in ("- 60 ratings over 3 apps", "- “sleep timer”", "- [ ] answers “calendar breaks”"):
        assert line in text
    assert "\n# Ignore" not in text
    assert "\\# Ignore all \\| this \\| \\[x\\](http://x) \\<b\\>" in text
    assert program.get("/v1/opportunities/no/brief.md").status_code == 404


def test_names_that_strangers_write_are_text_on_every_page(world: World, operator: Browser) -> None:
    found(world.app, world.h.now)
    with world.app.transaction() as tx:
        for table, column in (
            ("scout_app", "track_name"),
            ("scout_cluster", "name"),
            ("scout_opportunity", "name"),
        ):
            tx.write(f"update {table} set {column} = :name", name=HOSTILE)  # noqa: S608 - one of three
        stars.star(tx, "app", "3", world.h.now, "<b>list")
    reviews(world.app, world.h.now, [(1, f"{HOSTILE} breaks"), (1, f"{HOSTILE} breaks")])
    for path in (
        "",
        "apps",
        "apps/3",
        "clusters",
        "clusters/c1",
        "opportunities/c1",
        "complaints",
        "saved",
    ):
        text = operator.get(f"/scout/{path}").text
        assert "alert(1)" in text, path
        assert "<script>alert" not in text, path
        assert "<b>list" not in text, path


# --- commands


def test_commands_show_a_terminals_width_and_the_same_as_json(world: World) -> None:
    found(world.app, world.h.now)
    with world.app.transaction() as tx:
        tx.write(
            "update scout_app set track_name = :name where track_id = 3", name="x\x1b[31m" * 40
        )
        stars.star(tx, "app", "3", world.h.now, "rivals")
    assert run("track", "Sleep Timer").output == "sleep timer is followed\n"
    assert run("plant", "rota", "night").output == "2 searched for soon\n"
    assert run("star", "opportunity", "c1").output == "sleep timer has a star\n"
    shown = (
        "apps",
        "keywords",
        "tracked",
        "clusters",
        "opportunities",
        "stars",
        "status",
        "failed",
    )
    for name in shown:
        plain = run(name)
        assert plain.exit_code == 0, plain.output
        lines = plain.output.splitlines()
        assert all(len(line) <= 80 and "\x1b" not in line for line in lines), name
        as_json = run(name, "--json").output.splitlines()
        assert len(as_json) == len(lines), name
        assert all(isinstance(json.loads(line), dict) for line in as_json), name
    assert [
        json.loads(line)["track_id"]
        for line in run("apps", "timer 4", "--json").output.splitlines()
    ] == [4]
    assert run("keywords", "ro").output.endswith("rota\n")
    assert run("brief", "c1").output.startswith("# Build")
    assert run("export", "apps").output.count("\n") == 13
    assert len(json.loads(run("export", "apps", "--format", "json").output)) == 12
    assert run("share", "c1", "--days", "3").output.startswith("/scout/r/")
    assert run("star", "opportunity", "c1", "--off").output == "the star is gone\n"
    assert run("untrack", "sleep timer").exit_code == 0
    assert run("untrack", "sleep timer").exception is not None
    assert run("star", "planet", "c1").exit_code == 2


def test_every_command_has_an_example_and_fits_a_terminal() -> None:
    for name, command in part.commands.items():
        text = CliRunner().invoke(command, ["--help"], terminal_width=80).output
        assert f"  duework scout {name}" in text, name
        assert all(len(line) <= 80 for line in text.splitlines()), name
