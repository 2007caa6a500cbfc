"""A browser, a server and somebody who looks, one of each for a file of tests.

Not for a whole process: while it is open, Playwright holds the thread's event loop, and other tests want
one of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.sites import Site, Visitor, served, visiting
from tests.support import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as made:
        yield made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("site")
    with served("tests.browser.program:app", folder) as made:
        yield made


@pytest.fixture(scope="module")
def jobs(site: Site) -> dict[str, int]:
    found: dict[str, int] = site.elsewhere("tests.browser.program", "seed")
    return found


@pytest.fixture(scope="module")
def session(site: Site) -> str:
    return site.session("ada")


@pytest.fixture
def visitor(browser: Browser, site: Site, session: str) -> Iterator[Visitor]:
    with visiting(browser, site, session) as made:
        yield made
