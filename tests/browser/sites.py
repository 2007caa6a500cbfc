"""Pages served by `duework web` in a process of its own, and what holds for every page in a browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page

from duework import App
from duework.people import People
from duework.web.tokens import Tokens
from tests.support.chromium import axe

ROOT = Path(__file__).parents[2]
SECONDS = 20
WIDTHS, THEMES = (1280, 390), ("light", "dark")
NARROWEST = 320
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RULES = {"type": "tag", "values": TAGS}
# A theme changes colours and nothing else of a page: what else there is to find was found in the first one.
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}


@dataclass
class Site:
    """An App's pages under one address, also after a restart."""

    app: str
    folder: Path
    more: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def __post_init__(self) -> None:
        self.database = self.more.get("DUEWORK_URL") or f"sqlite:///{self.folder / 'work.db'}"
        self.environment = {**os.environ, "DUEWORK_URL": self.database, **self.more}
        self._process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        """Make the tables."""
        words = [sys.executable, "-m", "duework", "db", "migrate", "--app", self.app, "--create"]
        subprocess.run(
            words, cwd=ROOT, env=self.environment, check=True, capture_output=True, timeout=60
        )

    def start(self) -> None:
        port = urlsplit(self.url).port or 0
        words = [sys.executable, "-m", "duework", "web", self.app, "--port", str(port)]
        words += ["--token-file", str(self.folder / "first.token")]
        self._process = subprocess.Popen(
            words, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = ""
        while "login?code=" not in line:
            line = self._process.stdout.readline()
            assert line, "the server did not start"
        self.url = line.rpartition(" ")[2].partition("/login")[0]

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(SECONDS)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def elsewhere(self, module: str, *words: str) -> Any:
        """What a program prints that acts on the same database."""
        ended = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def token(self, name: str, scope: str = "operate") -> str:
        app = App(self.database)
        try:
            return Tokens(app).add(name, scope)
        finally:
            app.close()

    def person(self, part: str, email: str) -> str:
        """The session of somebody whom a part serves."""
        app = App(self.database)
        try:
            people = People(part, lambda: app.wiring.engine)
            return people.enter(people.entry(email)) or ""
        finally:
            app.close()

    def session(self, name: str, scope: str = "operate") -> str:
        secret = self.token(name, scope)
        app = App(self.database)
        try:
            return Tokens(app).open_session(secret)
        finally:
            app.close()


@contextmanager
def served(app: str, folder: Path, **more: str) -> Iterator[Site]:
    site = Site(app, folder, more)
    try:
        site.prepare()
        site.start()
        yield site
    finally:
        site.stop()


# How many pushes have reached the page.
_COUNT_MESSAGES = """document.addEventListener("htmx:ws:before:message:incoming",
  () => { window.heard = (window.heard || 0) + 1; });"""


class Visitor:
    """Somebody with a browser, signed in; `page` is what they look at."""

    def __init__(
        self,
        browser: Browser,
        site: Site,
        session: str = "",
        cookie_name: str = "duework",
        **options: Any,
    ) -> None:
        self.site = site
        options = {"viewport": {"width": 1280, "height": 800}, **options}
        self.context: BrowserContext = browser.new_context(
            base_url=site.url, reduced_motion="reduce", **options
        )
        self.context.set_default_timeout(SECONDS * 1000)
        if session:
            cookie = {"name": cookie_name, "value": session, "url": site.url}
            self.context.add_cookies([cookie])  # type: ignore[list-item]
        self.context.add_init_script(_COUNT_MESSAGES)
        self.page: Page = self.context.new_page()
        # What a browser says of a page that is not as it should be.
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self._hear(said.type, said.text))
        self.page.on("pageerror", lambda error: self._hear("error", str(error)))

    def _hear(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(text)

    def close(self) -> None:
        self.context.close()


@contextmanager
def visiting(browser: Browser, site: Site, session: str = "", **options: Any) -> Iterator[Visitor]:
    visitor = Visitor(browser, site, session, **options)
    try:
        yield visitor
    finally:
        visitor.close()


def check_renderings(visitor: Visitor, path: str | None = None, status: int = 200) -> None:
    """Four renderings of a page: nothing to complain of, no sideways scroll, nobody kept out.

    On the smallest phone it does not scroll sideways either.

    Without a path, of the one that is open.
    """
    if path is not None:
        answer = visitor.page.goto(path)
        assert answer is not None
        assert answer.status == status, path
    for width in WIDTHS:
        visitor.page.set_viewport_size({"width": width, "height": 800})
        for theme in THEMES:
            visitor.page.emulate_media(color_scheme=theme)
            where = f"{visitor.page.url} at {width}, {theme}"
            wider = sideways(visitor.page) + covered(visitor.page)
            assert not wider, "\n".join([where, *wider])
            found = violations(visitor.page, RULES if theme == THEMES[0] else COLOURS)
            assert not found, "\n".join([where, *found])
    visitor.page.set_viewport_size({"width": NARROWEST, "height": 800})
    wider = sideways(visitor.page) + covered(visitor.page)
    assert not wider, "\n".join([f"{visitor.page.url} at {NARROWEST}", *wider])
    if status != 200:
        # The browser itself says that a page was not found.
        visitor.complaints = [each for each in visitor.complaints if str(status) not in each]
    assert visitor.complaints == [], path


# The page as a whole, and what sticks out of it on a phone without a scroller of its own.
_WIDER = """() => {
  const root = document.documentElement, wide = root.clientWidth;
  if (root.scrollWidth <= wide) return [];
  return [...document.querySelectorAll("body *")]
    .filter((each) => each.getBoundingClientRect().right > wide + 1)
    .map((each) => each.outerHTML.slice(0, 120)).slice(0, 5).concat(`${root.scrollWidth} > ${wide}`);
}"""


def sideways(page: Page) -> list[str]:
    found: list[str] = page.evaluate(_WIDER)
    return found


# Rows of a table that is a list on a phone whose first line runs under its button, or out of its row.
_COVERED = """() => [...document.querySelectorAll(".data.stack tr:has(td.lead)")].flatMap((row) => {
  if (getComputedStyle(row).display !== "flex") return [];
  const lead = row.querySelector("td.lead"), edge = row.getBoundingClientRect().right;
  const buttons = [...row.querySelectorAll("td.act .btn")].map((each) => each.getBoundingClientRect());
  const texts = document.createTreeWalker(lead, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (texts.nextNode()) {
    if (texts.currentNode.parentElement.closest(".clip, .vh")) continue;
    range.selectNodeContents(texts.currentNode);
    for (const a of range.getClientRects()) {
      const beside = (b) => a.right <= b.left + 1 || b.right <= a.left;
      const under = (b) => !beside(b) && a.bottom > b.top + 1 && b.bottom > a.top + 1;
      if (a.right > edge + 1 || buttons.some(under)) return [`covered: ${lead.textContent.slice(0, 80)}`];
    }
  }
  return [];
})"""


def covered(page: Page) -> list[str]:
    found: list[str] = page.evaluate(_COVERED)
    return found


_RUN_AXE = "async (options) => (await axe.run(document, options)).violations"


def violations(page: Page, rules: dict[str, Any] = RULES) -> list[str]:
    """What axe finds, a line each."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(axe())
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    found = page.evaluate(_RUN_AXE, options)
    return [
        f"{each['id']}: {node['html'][:300]} {node.get('failureSummary', '')[:300]}"
        for each in found
        for node in each["nodes"][:4]
    ]
