"""What is shared is counted: TLS contexts and connections."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from duework import http
from systems.twins.kit.tls import Authority
from tests.support.docs import ROOT
from tests.support.loopback import Asked, reply, saying, serving


def test_a_thousand_requests_share_one_context_and_a_pool_of_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[type] = []
    usual = ssl.SSLContext.__new__

    def counting(cls: type, *args: Any, **options: Any) -> ssl.SSLContext:
        made.append(cls)
        return usual(cls, *args, **options)

    async def ask(clients: list[http.Client]) -> None:
        asking = [clients[n % 2].get(f"/{n}", timeout="60s") for n in range(1000)]
        assert {reply.status for reply in await asyncio.gather(*asking)} == {200}
        for client in clients:
            await client.aclose()

    authority = Authority(tmp_path)
    with serving(saying(reply(body=b"x")), authority.context()) as server:
        monkeypatch.setattr(ssl.SSLContext, "__new__", counting)
        asyncio.run(ask([http.Client(server.url, ca=authority.ca, pool=7) for _ in range(2)]))

    assert len(server.asked) == 1000
    assert len(made) == 1
    assert server.connections == 14


def isolated(folder: Path, count: int) -> list[list[int]]:
    async def number(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(body=asked.path.rpartition("/")[2].encode()))

    authority = Authority(folder)
    with serving(number, authority.context()) as server:
        environment = os.environ | {
            "CHECKS_URL": f"sqlite:///{folder / 'work.db'}",
            "CHECKS_SERVER": server.url,
            "CHECKS_CA": str(authority.ca),
            "PYTHONPATH": str(ROOT),
        }
        program = f"from tests.support.isolated_checks import main; main({count})"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found: list[list[int]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "count", [20, pytest.param(200, marks=pytest.mark.slow)], ids=lambda count: f"{count} tasks"
)
def test_isolated_tasks_make_no_tls_context_of_their_own(tmp_path: Path, count: int) -> None:
    found = isolated(tmp_path, count)

    assert [user for user, *_ in found] == list(range(count))
    # One, which was made where all of them were forked from: it was there before they asked.
    assert {(before, after) for _, before, after, _, _ in found} == {(1, 1)}
    [maker] = {maker for _, _, _, maker, _ in found}
    processes = {process for *_, process in found}
    assert len(processes) == count
    assert maker not in processes
