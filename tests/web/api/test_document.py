"""Whatever the OpenAPI document allows, or does not, is answered as it says, and never with a 5xx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode, checks
from starlette.testclient import TestClient

from duework import App
from duework.web.api.door import operations
from duework.web.tokens import Tokens
from tests.support.postgres import Server
from tests.web.api.shop import Drawer, shop
from tests.web.conftest import HERE, task, work

# Requests of each kind for each operation.
EXAMPLES = {"none": 1, "read": 1, "operate": 2}
BOTH = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("document")]


def address(request: pytest.FixtureRequest, folder: Path) -> str:
    """Of a new database of the kind that is asked for."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{folder / 'work.db'}"
    running: Server = request.getfixturevalue("postgres")
    return running.create_database("document")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A shop in which something of everything has happened."""
    folder = tmp_path_factory.mktemp("site")
    app = shop(address(request, folder), str(folder / "blobs"))
    task(app, "greet").enqueue("ada")
    task(app, "fails").enqueue("no")
    task(app, "remind").enqueue("eve")
    task(app, "order").enqueue("pen")
    app.publish("sold", {"item": "pen"})
    app.blobs.put("a/b", "pen")
    app.object(Drawer, "a").put("pen").result()
    work(app)
    yield app
    app.close()


@pytest.fixture(scope="module")
def secrets(site: App) -> dict[str, str]:
    return {scope: Tokens(site).add(f"the-{scope}", scope) for scope in ("read", "operate")}


@pytest.fixture(scope="module")
def schema(site: App, secrets: dict[str, str]) -> Any:
    headers = {"authorization": f"Bearer {secrets['read']}"}
    served = site.asgi(public_names=["testserver"])
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", served, headers=headers)


@pytest.mark.parametrize(
    ("site", "scope"),
    [("sqlite", "none"), ("sqlite", "read"), ("sqlite", "operate"), ("postgres", "operate")],
    indirect=["site"],
)
def test_whatever_is_sent_is_answered_as_the_document_says(
    schema: Any, secrets: dict[str, str], scope: str
) -> None:
    headers = {"authorization": f"Bearer {secrets[scope]}"} if scope in secrets else {}
    statuses: Counter[int] = Counter()
    found = [result.ok() for result in schema.get_all_operations()]
    for operation in found:
        for mode in BOTH:
            ask(operation, mode, EXAMPLES[scope], headers, statuses)

    assert len(found) == len(operations())
    if scope == "none":
        assert set(statuses) == {401}
    else:
        # A run in which everything is refused shows nothing.
        assert statuses[200] > 5
        assert statuses[404]
    if scope == "read":
        assert not statuses[201]
        assert statuses[403] > 20


def ask(
    operation: Any,
    mode: GenerationMode,
    examples: int,
    headers: dict[str, str],
    statuses: Counter[int],
) -> None:
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        case.headers = {
            name: value
            for name, value in (case.headers or {}).items()
            if name.lower() != "authorization"
        }
        answer = case.call(headers=headers)
        statuses[answer.status_code] += 1
        case.validate_response(
            answer,
            checks=[
                checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ],
        )

    try:
        send()
    except hypothesis.errors.Unsatisfiable:
        # Nothing can be wrong with a request that takes nothing.
        assert mode is GenerationMode.NEGATIVE, operation.label


def test_the_document_is_for_those_who_may_look(site: App, secrets: dict[str, str]) -> None:
    client = TestClient(site.asgi(), base_url=HERE)
    headers = {"authorization": f"Bearer {secrets['read']}"}

    answer = client.get("/api/v1/openapi.json", headers=headers)

    assert client.get("/api/v1/openapi.json").status_code == 401
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        assert schema.get("description"), name
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], f"{method} {path}"


def test_below_a_prefix_the_document_says_so(site: App, secrets: dict[str, str]) -> None:
    client = TestClient(site.asgi("/work"), base_url=HERE)
    headers = {"authorization": f"Bearer {secrets['read']}"}

    document = client.get("/work/api/v1/openapi.json", headers=headers).json()
    made = client.get("/work/api/v1/jobs", headers=headers)

    assert document["servers"] == [{"url": "/work"}]
    assert made.status_code == 200
