"""`duework web` as it is started: the link, the token's file, and what it refuses."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from duework import App, UsageError
from duework.web.server import parse_address

WEB = [sys.executable, "-m", "duework", "web"]


@contextmanager
def served(url: str, folder: Path, **more: str) -> Iterator[tuple[str, list[str]]]:
    """A server that is up, and the lines that it printed first."""
    words = [*WEB, "--url", url, "--port", "0", "--token-file", str(folder / "first.token")]
    environment = {**os.environ, **more}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            lines = []
            while not lines or "login?code=" not in lines[-1]:
                line = process.stdout.readline()
                assert line, lines
                lines.append(line.strip())
            yield lines[-1].rpartition(" ")[2], lines
        finally:
            process.terminate()
            process.wait(20)


def test_the_server_is_started_and_the_link_signs_in(url: str, tmp_path: Path) -> None:
    App(url).admin.migrate(create=True)

    with served(url, tmp_path) as (link, lines):
        base = link.partition("/login")[0]
        assert lines[0].startswith("The token 'first' (scope admin) is in ")
        assert os.stat(tmp_path / "first.token").st_mode & 0o777 == 0o600
        with httpx2.Client(base_url=base) as client:
            assert client.get("/health").json() == {"status": "ok"}
            assert "Paste a token" in client.get("/", follow_redirects=True).text
            code = re.search(r'name="token" value="([\w-]+)"', client.get(link).text)
            assert code
            entered = client.post("/login", data={"token": code[1]}, headers={"origin": base})
            assert entered.status_code == 303
            assert "<h1>Overview</h1>" in client.get("/").text
            assert client.get("/", headers={"host": "evil.test"}).status_code == 421
            assert "server" not in client.get("/").headers

    with served(url, tmp_path) as (_, lines):
        assert len(lines) == 1, "the first token is made once"


def refused(*words: str) -> str:
    ended = subprocess.run([*WEB, *words], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 78, (ended.stdout, ended.stderr)
    return ended.stderr


def test_it_listens_elsewhere_only_under_a_name(url: str) -> None:
    App(url).admin.migrate(create=True)

    assert "--public-name" in refused("--url", url, "--host", "0.0.0.0")  # noqa: S104 - refused
    assert "--public-name" in refused("--url", url, "--host", "example.com")
    assert "no name of a host" in refused("--url", url, "--public-name", "a b")


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    for name in [name for name in sys.modules if name.startswith("duework.web.asgi")]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(UsageError, match=r"pip install 'duework\[web\]'"):
        App(f"sqlite:///{tmp_path / 'work.db'}").asgi()


def test_a_prefix_that_is_none_is_refused(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")

    for prefix in ("ops", "/ops/", "/"):
        with pytest.raises(UsageError, match="prefix"):
            app.asgi(prefix)


# --- beside a worker

PROGRAM = """
from duework import App
app = App({url!r})

@app.task
def greet(name):
    return f"hello {{name}}"
"""


@contextmanager
def running(url: str, folder: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`duework run --web` that is up, and the link that it printed."""
    (folder / "program.py").write_text(PROGRAM.format(url=url))
    words = [sys.executable, "-m", "duework", "run", "program:app", "--web", "127.0.0.1:0"]
    words += ["--token-file", str(folder / "first.token"), "--no-view", *more]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stdout is not None
            assert "first.token" in process.stdout.readline()
            yield process.stdout.readline().strip().rpartition(" ")[2], process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(30)


@pytest.mark.parametrize("more", [(), ("--processes", "2")], ids=["alone", "two"])
def test_a_worker_serves_the_pages_too_and_one_signal_stops_both(
    url: str, tmp_path: Path, more: tuple[str, ...]
) -> None:
    with running(url, tmp_path, *more) as (link, process):
        base = link.partition("/login")[0]
        with _enqueued(url) as job, httpx2.Client(base_url=base) as client:
            assert client.get("/health").json()["status"] == "ok"
            assert job.wait("20s").state == "done"
            entered = client.post(
                "/login", data={"token": link.partition("code=")[2]}, headers={"origin": base}
            )
            assert entered.status_code == 303
            assert "greet" in client.get(f"/jobs/{job.id}").text

        process.terminate()
        assert process.wait(30) == 0
        assert process.stdout is not None
        assert "login?code=" not in process.stdout.read(), "the link is printed once"
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{base}/health")


@contextmanager
def _enqueued(url: str) -> Iterator[Any]:
    app = App(url)

    @app.task
    def greet(name: str) -> str:
        return f"hello {name}"

    yield greet.enqueue("ada")
    app.close()


def test_an_address_that_is_none_or_taken_starts_no_worker(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(url=f"sqlite:///{tmp_path}/work.db"))
    words = [sys.executable, "-m", "duework", "run", "program:app", "--web"]
    taken = socket.create_server(("127.0.0.1", 0))

    for address in ("8377", "127.0.0.1:99999", f"127.0.0.1:{taken.getsockname()[1]}"):
        ended = subprocess.run(
            [*words, address], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60
        )
        assert ended.returncode == 78, ended.stderr
        assert "HOST:PORT" in ended.stderr or "cannot listen" in ended.stderr
    taken.close()


def test_the_address_may_be_left_out() -> None:
    from duework.cli.run import run

    for words, found in (
        ([], None),
        (["--web"], "127.0.0.1:8377"),
        (["--web", "[::1]:0"], "[::1]:0"),
    ):
        context = run.make_context("run", ["program:app", *words])
        assert context.params["web"] == found
    assert parse_address("[::1]:0") == ("::1", 0)
