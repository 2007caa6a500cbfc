"""The pages of the systems and of the demo, with rows in them, in four renderings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, expect

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


GPX = """<?xml version="1.0"?><gpx><trk><name>Evening run</name><type>running</type><trkseg>
<trkpt lat="51.0" lon="0"><time>2020-05-01T18:00:00Z</time></trkpt>
<trkpt lat="51.01" lon="0"><time>2020-05-01T18:06:00Z</time></trkpt></trkseg></trk></gpx>"""


def chosen(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": text.encode()}


@pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
def test_somebody_chooses_files_and_sees_what_became_of_each(
    browser: Browser, systems: tuple[Site, dict[str, int], str], *, script: bool
) -> None:
    site, _, session = systems
    athlete = 5002 if script else 5003
    with visiting(browser, site, session, java_script_enabled=script) as ada:
        page = ada.page
        page.goto(f"/strides/athletes/{athlete}")
        panel, button = page.locator("#files"), page.get_by_role("button", name="Send", exact=True)
        field = page.get_by_label("Recordings")
        sent = [chosen("notes.gpx", "no recording"), chosen("run.gpx", GPX)]
        field.set_input_files(sent)
        button.click()
        expect(page.locator("#toasts")).to_contain_text("2 files are taken in")
        assert page.url.endswith(f"/strides/athletes/{athlete}"), "back where it was"
        expect(panel.get_by_text("being taken in")).to_have_count(2)

        # What somebody has chosen stays while the page changes around it.
        field.set_input_files([chosen("next.gpx", GPX)])
        site.elsewhere("tests.browser.strides_work")
        if not script:
            page.reload()
        expect(panel.locator("tr", has_text="notes.gpx")).to_contain_text("is neither FIT, TCX")
        expect(panel.locator("tr", has_text="run.gpx")).to_contain_text("taken in")
        expect(panel).not_to_contain_text("being taken in")
        if script:
            assert field.evaluate("each => each.files[0].name") == "next.gpx"
