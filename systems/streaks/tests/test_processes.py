"""The system alone, as a person starts it: a real worker, real processes, and a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duework import App
from duework.outside.keys import new_key
from systems.streaks import promises, seed
from systems.streaks.part import part
from systems.twins import Twins
from tests.support.processes import ROOT, until


@contextmanager
def worker(url: str, key: str, t: Twins, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`duework run systems.streaks:app`."""
    settings = {
        "DUEWORK_URL": url,
        "DUEWORK_KEY": key,
        "STREAKS_GITHUB_URL": t.github.url,
        "STREAKS_DISCORD_URL": t.discord.url,
        "STREAKS_TELEGRAM_URL": t.telegram.url,
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "duework", "run", "systems.streaks:app"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env={**os.environ, **settings}, cwd=ROOT, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.slow
@pytest.mark.rows("000-12", "000-46", "000-63")
def test_a_worker_that_is_killed_among_its_messages_tells_nobody_twice(
    url: str, upstreams: Twins, tmp_path: Path
) -> None:
    key = new_key()
    app = App(url, secrets_key=key)
    app.include(part)
    for twin in upstreams.all:
        twin.reset()
    seed(app, 4)
    with app.transaction() as tx:
        # The first hour of the day has come, whenever this runs.
        tx.write("update streaks_person set next_at = :now, hour = 0", now=app.now())
    try:
        with worker(url, key, upstreams, tmp_path / "first") as first:
            until(lambda: app.schedules("streaks.choose"), within=30)
            app.get_schedule("streaks.choose").fire_now()
            until(lambda: "sent" in states(app), within=30)
            first.kill()
        with worker(url, key, upstreams, tmp_path / "second"):
            until(lambda: len(states(app)) == 8 and "promised" not in states(app), within=30)
        found, progress = promises(app), app.batches()[0].progress()
    finally:
        app.close()

    books = Counter(e["hook"] for e in upstreams.discord.ledger.of("message"))
    books.update(str(e["chat"]) for e in upstreams.telegram.ledger.of("message"))
    assert progress.done == 4
    assert set(books.values()) == {1}
    assert {each.address for each in found if each.state == "sent"} <= books.keys()
    assert {each.state for each in found} <= {"sent", "unsure"}


def states(app: App) -> list[str]:
    return [each.state for each in promises(app)]
