"""The command: addresses for people and for programs, a page to watch, a clock shared by processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from systems.twins import KINDS, Twins, twins
from systems.twins.__main__ import main
from systems.twins.kit.board import board
from systems.twins.kit.clock import boot
from systems.twins.tests.conftest import NOON

ROOT = Path(__file__).parents[3]
TWINS = ("hooks", "discord")


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "systems.twins", "--json", "--port", "0", *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        assert process.wait(20) == 0


def test_all_twins_run_as_a_process_on_a_clock_that_others_share(http: httpx2.Client) -> None:
    clock = f"60@{NOON}/{boot()}"

    with started("--all", DUEWORK_CLOCK=clock) as shown:
        replies = {
            name: http.get(f"{twin['url']}/_twin").json() for name, twin in shown["twins"].items()
        }
        page = http.get(shown["page"]).text
        posted = http.post(shown["twins"]["discord"]["webhook"], json={"content": "hi"})

    assert list(replies) == list(KINDS)
    assert all(NOON <= reply["now"] < NOON + 3_600_000 for reply in replies.values())
    assert all(f"id='{name}'" in page for name in KINDS)
    assert posted.status_code == 204
    assert posted.headers["date"].startswith("Sun, 01 Mar 2026 12:")


def test_some_twins_run_by_https_and_tell_their_authority() -> None:
    with started("--only", "hooks,smtp", "--https") as shown:
        context = ssl.create_default_context(cafile=shown["ca"])
        reply = httpx2.get(f"{shown['twins']['hooks']['url']}/_twin", verify=context)

    assert list(shown["twins"]) == ["hooks", "smtp"]
    assert reply.status_code == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--all or --only"),
        (["--all", "--only", "github"], "--all or --only"),
        (["--only", "fax"], "there is no twin 'fax'"),
        (["--all", "--clock", "fast"], "DUEWORK_CLOCK"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code != 0
    assert message in result.output


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(main, ["--only", "hooks", "--port", port])

    assert result.exit_code == 1
    assert "--port 0" in result.output


def test_the_help_has_examples() -> None:
    text = CliRunner().invoke(main, ["--help"]).output

    assert "python -m systems.twins --only github,strava" in text
    assert "/_twin/ledger" in text


@pytest.fixture
def page(t: Twins) -> Iterator[httpx2.Client]:
    with twins(None, "hooks") as other:
        # The board of the module's twins, served by others.
        base = other.run(other.listen(board(t.all)))
        with httpx2.Client(base_url=base, trust_env=False) as client:
            yield client


def test_the_page_shows_books_and_escapes_what_is_in_them(
    t: Twins, http: httpx2.Client, page: httpx2.Client
) -> None:
    url = t.discord.samples()["webhook"]
    http.post(url, json={"content": "<script>alert(1)</script>"})

    whole, figures = page.get("/").text, page.get("/discord/figures").text

    assert "1 delivered · 1 calls" in figures
    assert "&lt;script&gt;alert(1)" in figures
    assert "<script>alert" not in whole + figures
    assert page.get("/fax/figures").status_code == 404


def test_the_page_sets_faults_and_switches_and_forgets(
    t: Twins, http: httpx2.Client, page: httpx2.Client
) -> None:
    set_ = page.post("/hooks/faults", data={"plan": '[{"do": "status", "status": 503}]'})
    down = http.post(f"{t.hooks.url}/hook/a").status_code
    bad = page.post("/hooks/faults", data={"plan": '[{"do": "explode"}]'})
    values = '{"name": "a", "answers": [410]}'
    page.post("/hooks/faults", data={"plan": "[]"})
    page.post("/hooks/switch", data={"switch": "answer", "values": values})
    switched = http.post(f"{t.hooks.url}/hook/a").status_code
    wrong = page.post("/hooks/switch", data={"switch": "answer", "values": '{"x": 1}'})
    page.post("/hooks/reset")

    assert set_.status_code == 303
    assert (down, switched) == (503, 410)
    assert bad.status_code == wrong.status_code == 400
    assert t.hooks.log.calls == 0
    assert page.post("/hooks/nothing").status_code == 400
    assert page.post("/fax/reset").status_code == 404
