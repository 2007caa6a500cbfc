"""A shape that is none of ours: all that it has is found in its folder, and the package knows none of it."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import duework
from duework import App, Conflict, UsageError
from duework.cli import main
from duework.observe import log
from duework.shapes.shape import Hooks, Shape
from duework.testing import Harness
from duework.web.tokens import Tokens
from tests.support.docs import ROOT, blocks
from tests.support.harness import HarnessOn
from tests.toy.countdowns import SHAPE
from tests.toy.countdowns.hooks import Countdowns
from tests.toy.countdowns.verbs import Landed, NewCountdown

FOLDER = Path(__file__).parents[1] / "toy" / "countdowns"


@pytest.fixture
def h(url: str) -> Iterator[Harness]:
    with HarnessOn(App("sqlite:///never-opened.db"), url) as running:
        yield running


@pytest.fixture
def countdowns(h: Harness) -> Countdowns:
    return h.app.adopt(Countdowns())


def broken(app: App) -> list[str]:
    return [each.name for each in app.admin.verify() if each.violations]


def test_no_file_of_the_package_knows_the_toy() -> None:
    source = Path(duework.__file__).parent
    files = [*source.rglob("*.py"), *source.rglob("*.sql"), *source.rglob("*.html")]

    assert [each for each in files if "countdown" in each.read_text().lower()] == []


def test_its_table_is_migrated_and_its_jobs_move_its_rows(
    h: Harness, countdowns: Countdowns
) -> None:
    countdowns.start("apollo", 3)

    seen = []
    for _ in range(4):
        seen.append(countdowns.list())
        h.advance("1s")

    assert seen == [
        [("apollo", "running", 3)],
        [("apollo", "running", 2)],
        [("apollo", "running", 1)],
        [("apollo", "landed", 0)],
    ]
    assert broken(h.app) == []


def test_a_name_that_is_taken_is_a_conflict_and_changes_nothing(
    h: Harness, countdowns: Countdowns
) -> None:
    countdowns.start("apollo", 3)

    with pytest.raises(Conflict, match="apollo"):
        countdowns.start("apollo", 9)

    assert countdowns.list() == [("apollo", "running", 3)]
    assert broken(h.app) == []


def test_verify_reports_its_invariant(h: Harness, countdowns: Countdowns) -> None:
    countdowns.start("apollo", 3)
    assert broken(h.app) == []

    with h.app.transaction() as tx:
        tx.write("update duework_countdown set job = null")

    assert broken(h.app) == ["countdown_moves"]


def test_its_hooks_are_told_of_the_end_of_its_jobs(h: Harness, countdowns: Countdowns) -> None:
    countdowns.start("apollo", 3)

    h.app.cancel(h.app.jobs(task="countdowns.tick")[0].id)

    assert countdowns.list() == [("apollo", "stopped", 3)]
    assert broken(h.app) == []


def test_what_is_over_is_pruned(h: Harness, countdowns: Countdowns) -> None:
    countdowns.start("apollo", 1)
    h.advance("1s")

    h.advance("8d")
    countdowns.prune()

    assert countdowns.list() == []


def test_its_facts_have_words(h: Harness, countdowns: Countdowns) -> None:
    told: list[object] = []
    h.app.on_fact(told.append)
    countdowns.start("apollo", 1)

    h.advance("1s")

    [fact] = [each for each in told if isinstance(each, Landed)]
    words = log.words(fact)
    assert (words.event, words.text) == ("countdown_landed", "countdown apollo has landed")


def test_a_fact_without_words_is_logged_as_it_is() -> None:
    stream, ours = io.StringIO(), logging.getLogger("duework")
    handler, before = logging.StreamHandler(stream), ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        log.report(Unworded())
    finally:
        ours.removeHandler(handler)
        ours.setLevel(before)

    assert "Unworded" in stream.getvalue()


class Unworded(duework.facts.ShapeFact):
    """Of a shape that has no words.py."""

    def __repr__(self) -> str:
        return "Unworded()"


def test_it_is_written_by_name_in_a_transaction_of_the_users(
    h: Harness, countdowns: Countdowns
) -> None:
    write = h.app.wiring.registry.writes["countdown"]

    h.app.wiring.engine.writer.call(write.verb, [NewCountdown("gemini", 2)])

    assert countdowns.list() == [("gemini", "running", 2)]


def test_listeners_hear_of_its_table_by_its_name(url: str) -> None:
    app = App(url)
    countdowns = app.adopt(Countdowns())

    async def hears() -> None:
        changes, topics, number = app.changes(coalesce="1ms"), None, 0
        # The first changes may be of everything: nothing is known of what came before.
        while "countdowns" not in (topics or ()):
            number += 1
            await asyncio.to_thread(countdowns.start, f"apollo {number}", 3)
            topics = (await anext(changes)).topics
        await changes.aclose()

    asyncio.run(asyncio.wait_for(hears(), 20))
    app.close()


def test_its_commands_are_found(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("ground_control")
    app = App(url)
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ground_control", module)
    app.adopt(Countdowns()).start("apollo", 3)

    ran = CliRunner().invoke(main, ["countdowns", "list", "--app", "ground_control:app"])

    assert (ran.exit_code, ran.stdout) == (0, "apollo running 3\n")


def test_its_page_stands_below_its_name_and_in_the_side_bar(url: str) -> None:
    app = App(url)
    app.adopt(Countdowns()).start("<apollo>", 3)
    browser = TestClient(app.asgi(), base_url="http://localhost", follow_redirects=False)
    door = browser.get("/countdowns")
    headers = {"authorization": f"Bearer {Tokens(app).add('me', 'read')}"}

    page = browser.get("/countdowns", headers=headers)

    assert door.status_code == 303
    assert page.status_code == 200
    assert "&lt;apollo&gt;: running, 3 s" in page.text
    assert 'href="/countdowns"' in browser.get("/jobs", headers=headers).text
    app.close()


def test_two_shapes_of_one_name_are_refused(h: Harness, countdowns: Countdowns) -> None:
    class Other(Hooks):
        shape = Shape("countdowns", "tests.toy")

    with pytest.raises(UsageError, match="two shapes named 'countdowns'"):
        h.app.adopt(Other())


def test_a_database_that_lacks_its_table_says_which(url: str) -> None:
    first = App(url)
    _ = first.wiring.engine
    first.close()
    app = App(url)
    app.wiring.registry.shapes["countdowns"] = SHAPE

    assert app.admin.pending() == ["shape:countdowns 0001 countdowns"]


@pytest.mark.parametrize(
    "name", sorted(each.name for each in FOLDER.rglob("*.*") if each.suffix != ".pyc")
)
def test_the_guide_shows_every_file_of_it(name: str) -> None:
    [file] = FOLDER.rglob(name)
    language = {".py": "py", ".sql": "sql", ".html": "html"}[file.suffix]

    assert file.read_text() in blocks(ROOT / "docs" / "guides" / "shapes.md", language)
