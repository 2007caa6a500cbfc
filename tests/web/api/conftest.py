"""Programs that ask the HTTP API of a shop, with a token of each scope and with none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from duework import App
from duework.web.server import Address, beside
from duework.web.tokens import Tokens
from tests.web.api.shop import shop
from tests.web.conftest import HERE

BASE = "/api/v1"


@dataclass
class Program:
    """Asks, and says what it was answered."""

    app: App
    client: TestClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = TestClient(self.app.asgi(), base_url=HERE, raise_server_exceptions=True)

    def scope(self, scope: str) -> Program:
        """The same with another token."""
        tokens = Tokens(self.app)
        secret = tokens.add(f"{scope}-{len(tokens.all())}", scope)
        self.client.headers["authorization"] = f"Bearer {secret}"
        return self

    def ask(self, method: str, path: str, **more: Any) -> Any:
        return self.client.request(method, BASE + path, **more)

    def get(self, path: str, **query: Any) -> Any:
        answer = self.ask("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, expected: int = 200, /, **body: Any) -> Any:
        answer = self.ask("POST", path, json=body)
        assert answer.status_code == expected, answer.text
        return answer.json()

    def problem(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        """The status and the code of a refusal, which is of the right type."""
        answer = self.ask(method, path, **more)
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        found = answer.json()
        assert found["status"] == answer.status_code
        assert found["type"] == f"urn:duework:problem:{found['code']}"
        assert found["title"]
        assert found["detail"]
        return answer.status_code, found["code"]


@pytest.fixture
def app(emptied: str, tmp_path: Path) -> Iterator[App]:
    made = shop(emptied, str(tmp_path / "blobs"))
    yield made
    made.close()


@pytest.fixture
def program(app: App) -> Program:
    """One with the scope operate."""
    return Program(app).scope("operate")


@pytest.fixture
def server(app: App, tmp_path: object) -> Iterator[str]:
    """The address of a server on loopback."""
    said: list[str] = []
    with beside(app, Address(port=0, token_file=f"{tmp_path}/token"), said.append):
        yield re.findall(r"http://[^/]+", said[-1])[0]
