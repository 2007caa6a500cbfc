"""The pages of the systems and of the demo, with rows in them, in four renderings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from systems.twins import twins
from systems.twins.kit.board import board
from tests.browser.sites import Site, check_renderings, served, visiting

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
KEY = "A" * 43 + "="
PAGES = [
    "/demo/",
    "/mailroom/",
    "/mailroom/messages/{message}",
    "/reminders/",
    "/streaks/",
    "/streaks/people/user-001",
    "/scout/",
    "/scout/opportunities/habit",
    "/scout/apps/900",
    "/scout/apps/901",
    "/strides/",
    "/strides/athletes/5001",
]


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, dict[str, int], str]]:
    folder = tmp_path_factory.mktemp("systems")
    with served("systems.demo.app:app", folder, DUEWORK_KEY=KEY) as site:
        yield site, site.elsewhere("tests.browser.systems_seed"), site.session("ada")


def test_the_page_of_the_stand_ins_is_right_too(browser: Browser) -> None:
    with twins(None) as found:
        address = found.run(found.listen(board(found.all), 0))
        with visiting(browser, Site("", Path(), url=address)) as somebody:
            check_renderings(somebody, "/")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_a_system_is_right_at_both_widths_in_light_and_dark(
    browser: Browser, systems: tuple[Site, dict[str, int], str], path: str
) -> None:
    site, known, session = systems
    with visiting(browser, site, session) as ada:
        check_renderings(ada, path.format(**known))
