"""The pages of an App with jobs of every phase, and browsers and programs that look at them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest
from starlette.testclient import TestClient

from duework import App, Part
from duework.web.tokens import Tokens
from tests.web.club import with_club

HERE = "http://localhost"
OURS = {"origin": HERE}


class Browser(TestClient):
    """A browser that is signed in, and posts as a page of ours does."""

    def sign_in(self, secret: str) -> Browser:
        answer = self.post("/login", data={"token": secret}, headers=OURS)
        assert answer.status_code == 303, answer.text
        return self

    def form_key(self) -> str:
        found = re.search(r'name="form" value="(\w+)"', self.get("/menu").text)
        assert found
        return found[1]

    def submit(self, path: str, **data: Any) -> Any:
        return self.post(path, data={"form": self.form_key(), **data}, headers=OURS)


@dataclass
class Site:
    """An App and its pages."""

    app: App

    def browser(self, scope: str | None = None, **options: Any) -> Browser:
        made = Browser(self.app.asgi(**options), base_url=HERE, follow_redirects=False)
        if scope is not None:
            made.sign_in(self.token(scope))
        return made

    def token(self, scope: str, expires: str | None = None) -> str:
        tokens = Tokens(self.app)
        return tokens.add(f"{scope}-{len(tokens.all())}", scope, expires)


@pytest.fixture
def site(emptied: str) -> Iterator[Site]:
    app = App(emptied)

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task(queue="mail")
    async def fails(text: str) -> None:
        raise ValueError(text)

    @app.task(retries=1, backoff=("1h",))
    async def retries() -> None:
        raise ValueError("try again")

    yield Site(app)
    app.close()


@pytest.fixture
def part(site: Site) -> Part:
    return with_club(site.app)


@pytest.fixture
def browser(site: Site, part: Part) -> Browser:
    return site.browser("operate")


def task(app: App, name: str) -> Any:
    from duework.task import Task

    made: Task[..., Any, Any] = Task(app.wiring.registry.find(name), app)
    return made


def work(app: App) -> None:
    """Run what is due."""
    asyncio.run(app.worker().run_until_idle())


class Tags(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check_page(answer: Any) -> Tags:
    """What holds for every page: the policy is there and nothing of the page needs more than it allows."""
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["x-content-type-options"] == "nosniff"
    tags = Tags(answer.text)
    for tag, attributes in tags.found:
        assert tag not in {"style", "iframe", "object", "embed", "base"}, tag
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        if tag == "script":
            assert (attributes.get("src") or "").endswith(".js")
        for name in ("href", "src", "action", "formaction"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), (tag, attributes)
    return tags


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """How many statements of the kernel a call runs."""
    from duework.db.postgres.tx import PostgresTx
    from duework.db.sqlite.tx import SqliteTx

    seen: list[str] = []
    for kind in (SqliteTx, PostgresTx):

        def counting(self: Any, statement: Any, values: Any, _run: Any = kind.query) -> Any:
            seen.append(statement.name)
            return _run(self, statement, values)

        monkeypatch.setattr(kind, "query", counting)

    def count(call: Callable[[], Any]) -> int:
        seen.clear()
        call()
        return len(seen)

    return count
