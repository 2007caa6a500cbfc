"""Every `curl` example of the guide to the HTTP API runs on a real server, and answers as written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duework.web.api.door import operations
from duework.web.server import Address, beside
from duework.web.tokens import Tokens
from tests.support import curl
from tests.support.docs import ROOT, blocks

GUIDE = ROOT / "docs" / "guides" / "http-api.md"
_PAIR = re.compile(r"^```sh\n(.*?)^```\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of somebody who has followed the guide so far."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks(GUIDE, "python")[0], names)  # noqa: S102 - the guide's own program
    work, said = names["work"], list[str]()
    token = Tokens(work).add("shop", "operate")
    with beside(work, Address(port=0, token_file=str(tmp_path / "token")), said.append):
        url = re.findall(r"http://[^/]+", said[-1])[0]
        yield {**os.environ, "PATH": path(tmp_path), "TOKEN": token, "URL": url}
    work.close()


def path(folder: Path) -> str:
    """Where `curl` is found: the machine's own, else a small one of ours."""
    if shutil.which("curl") is None:
        made = folder / "curl"
        made.write_text(f'#!/bin/sh\nexec {sys.executable} {curl.__file__} "$@"\n')
        made.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_every_curl_example_answers_as_it_is_written(shell: dict[str, str]) -> None:
    pairs = _PAIR.findall(GUIDE.read_text())

    assert len(pairs) == len(blocks(GUIDE, "sh"))
    for script, expected in pairs:
        ran = subprocess.run(
            ["sh", "-euc", script], env=shell, capture_output=True, text=True, check=True
        )
        assert without_chance(json.loads(ran.stdout)) == without_chance(json.loads(expected))


def without_chance(value: Any) -> Any:
    """Without ids and times, which are others each time."""
    if isinstance(value, dict):
        return {name: without_chance(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_chance(each) for each in value]
    if isinstance(value, str) and re.fullmatch(r"\d{18}", value):
        return "an id"
    return "a time" if isinstance(value, int) and value > 10**12 else value


def test_our_own_curl_does_the_same(
    shell: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    header = f"Authorization: Bearer {shell['TOKEN']}"

    curl.main(["--silent", "-H", header, f"{shell['URL']}/api/v1/tasks"])
    curl.main(["-X", "DELETE", "-H", header, f"{shell['URL']}/api/v1/tasks"])

    first, _, second = capsys.readouterr().out.partition("}{")
    assert '"greet"' in first
    assert '"method_not_allowed"' in second


def test_every_address_is_in_the_guide() -> None:
    text = GUIDE.read_text()

    for each in operations():
        first, *_, last = each.path.removeprefix("/").split("/") * 2
        assert f"/{first}" in text, each.path
        assert "{" in last or f"/{last}" in text, each.path
