"""The core of what an open page does by itself, with PostgreSQL underneath."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.sites import Site, served
from tests.browser.test_live import (
    overview,
    test_a_fold_stays_open_while_its_job_changes,
    test_a_job_of_another_process_changes_the_open_page,
    test_a_list_stands_still_and_says_that_there_is_something_newer,
    test_a_page_comes_back_after_a_restart_and_is_right,
)
from tests.support.postgres import Server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
# Collected here, on the site below.
__all__ = [
    "overview",
    "test_a_fold_stays_open_while_its_job_changes",
    "test_a_job_of_another_process_changes_the_open_page",
    "test_a_list_stands_still_and_says_that_there_is_something_newer",
    "test_a_page_comes_back_after_a_restart_and_is_right",
]


@pytest.fixture(scope="module")
def site(
    postgres: Server, postgres_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    url = postgres.create_database("live_pages", template=postgres_template)
    folder = tmp_path_factory.mktemp("live")
    options = {"DUEWORK_URL": url, "DUEWORK_BLOBS": str(folder / "blobs")}
    with served("tests.browser.program:app", folder, **options) as made:
        yield made
    postgres.drop_database("live_pages")
