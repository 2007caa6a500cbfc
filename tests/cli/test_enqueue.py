"""`duework enqueue`: a job by the name of its task, from a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duework import App
from tests.cli.conftest import Duework, work

MODULE = """
from duework import App, End, Page

app = App({url!r})


@app.task
async def greet(name: str, polite: bool = False) -> str:
    return f"hello {{name}}"


@app.chain()
async def pull(page: Page, user: int) -> End:
    return End()
"""


@pytest.fixture
def name(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """MODULE:APP of a program with a task."""
    module = f"greeting_{abs(hash(url))}"
    (tmp_path / f"{module}.py").write_text(MODULE.format(url=url))
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"{module}:app"


@pytest.mark.parametrize("args", ['["ada"]', '{"name": "ada"}'])
def test_a_task_is_enqueued_by_its_name(shop: App, bare: Duework, name: str, args: str) -> None:
    ran = bare("enqueue", "greet", "--app", name, "--args", args, "--json")

    work(shop)
    assert ran.code == 0
    assert shop.job(int(ran.document["id"])).result == "hello ada"


def test_a_key_makes_one_job(shop: App, bare: Duework, name: str) -> None:
    words = ("enqueue", "greet", "--app", name, "--args", '["ada"]', "--key", "k", "--delay", "1h")
    first = bare(*words)
    # A command is a process of its own, as a rule.
    sys.modules.pop(name.partition(":")[0])
    again = bare(*words)

    assert first.out.endswith("enqueued\n")
    assert again.out == first.out.replace("enqueued", "known already")
    assert len(shop.jobs()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("greet", "--args", "{"), "--args is JSON"),
        (("greet", "--args", '"ada"'), "a list or an object"),
        (("greet", "--args", "[1]"), "Expected `str`"),
        (("greet", "--args", '["a", true, 3]'), "takes 2 arguments"),
        (("greet",), "name"),
        (("nobody",), "it knows greet"),
        (("pull", "--args", "[1]"), "start a chain"),
        (("duework.prune",), "knows no task"),
        (("greet", "--args", '["a"]', "--once", "1h"), "need a key"),
        (("greet", "--args", '["a"]', "--delay", "soon"), "duration"),
    ],
)
def test_what_cannot_be_a_job_is_said_and_makes_none(
    shop: App, bare: Duework, name: str, words: tuple[str, ...], said: str
) -> None:
    ran = bare("enqueue", *words, "--app", name)

    assert ran.code == 78
    assert said in ran.err
    assert shop.jobs(own=True) == []


def test_without_an_app_it_says_what_is_missing(shop: App, duework: Duework) -> None:
    ran = duework("enqueue", "greet")

    assert ran.code == 78
    assert "--app" in ran.err
