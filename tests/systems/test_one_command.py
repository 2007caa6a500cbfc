"""All of scout by one command on an empty folder; and what becomes of it when its process is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from duework import App
from systems.scout.crawl import categories
from systems.twins import twins
from tests.support.processes import until

ROOT = Path(__file__).parents[2]
SECONDS = 60
WORKING = re.compile(r"worker \d+ started: pid (\d+)")
REPLACED = re.compile(r"process \d (?:\(pid \d+\) )?was killed.*")
ENRICHED = "select 1 as x from scout_app where enriched_at is not null limit 1"


@contextmanager
def scout(url: str, apple: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    given = {"DUEWORK_URL": url, "DUEWORK_KEY": "A" * 43 + "=", "SCOUT_APPLE_URL": apple}
    command = [sys.executable, "-m", "duework", "run", "systems.scout:app", "--processes", "2"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **given}, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)


def in_log(log: Path, pattern: re.Pattern[str], wanted: int) -> list[str]:
    found = pattern.findall(log.read_text())
    return found if len(found) >= wanted else []


@pytest.mark.slow
@pytest.mark.rows("001-03", "001-05")
def test_one_command_crawls_and_enriches_and_goes_on_when_its_processes_are_killed(
    tmp_path: Path,
) -> None:
    url, log = f"sqlite:///{tmp_path / 'scout.db'}", tmp_path / "log"
    with twins(None, "apple") as t, scout(url, t.apple.url, log) as process:
        t.apple.count = 60
        pids = until(lambda: in_log(log, WORKING, 2), SECONDS)
        with closing(App(url)) as app:
            with app.transaction() as tx:
                categories.add(tx)
            until(lambda: app.schedules("scout.crawl"), SECONDS)
            app.get_schedule("scout.crawl").fire_now()
            until(lambda: t.apple.log.calls, SECONDS)
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
            until(lambda: in_log(log, REPLACED, 2), SECONDS)
            until(lambda: app.read(ENRICHED), SECONDS)
            assert not any(each.violations for each in app.admin.verify())
        assert process.poll() is None
    assert process.returncode == 0
