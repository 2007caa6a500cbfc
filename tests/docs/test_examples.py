"""The examples run as a user starts them, and show what they say."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from duework import App
from tests.support.docs import EXAMPLES, ROOT, environment, run

# What each of them must have printed.
SHOWN = {
    "batches": "nightly: 196 done, 4 failed",
    "blobs": "from the cache: 1, fetched: 1",
    "budgets": "0.09 spent, 5 rows in the ledger",
    "chain": "in all: {'fetched': 2500, 'missing': 0}",
    "deliveries": "1 e-mail in the provider's books",
    "demo": "0 lost.",
    "events": "3 redriven",
    "hello": "hello barbara",
    "metrics": "apps_discovered charts: 10 in 5 steps",
    "outside": "signed and verified: order-7",
    "outbox": "2 e-mails in the provider's books",
    "isolated": "killed by SIGKILL",
    "objects": "left: ['12A']",
    "paces": "bob: two",
    "retries": "the page was empty",
    "schedules": "report for Sun 29 Mar 02:00 BST",
    "seats": "seats: {'12B': 'ada'}",
    "serial": "['cid:1', 'cid:2', 'cid:3', 'cid:4', 'cid:5']",
    "sweeps": "19 done, 1 put off",
    "starlette_app": "cat.thumb.png",
    "steps": "3. approved:7 (wait): done",
    "testing_example": "never lost, never twice",
    "transactional": "[(7, 12, 12)]",
    "with_django": "orders: [(7, 12)]",
    "with_sqlalchemy": "orders: [(7, 12)]",
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES} == SHOWN.keys()


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_leaves_no_database_behind(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not below `tmp_path`: sockets go there, whose paths may be no longer than about a hundred bytes.
    with TemporaryDirectory() as temporary:
        monkeypatch.setenv("TMPDIR", temporary)

        done = run(path, tmp_path)

        assert SHOWN[path.stem] in done.stdout
        assert "Traceback" not in done.stderr
        assert list(Path(temporary).rglob("*.db*")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with_django", "with_sqlalchemy"])
def test_an_orm_s_rows_and_their_jobs_are_one_commit(
    name: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tests.support.docs.environment", lambda: environment() | {"DUEWORK_URL": url}
    )

    done = run(ROOT / "examples" / f"{name}.py", tmp_path)

    assert "order 8 is refused: neither it nor its job exists\norders: [(7, 12)]" in done.stdout
    with closing(App(url)) as app:
        assert [(job.task, job.result) for job in app.jobs(task="charge")] == [
            ("charge", "charged order 7")
        ]


@pytest.mark.slow
def test_the_program_of_the_readme_survives_a_kill(tmp_path: Path) -> None:
    hello = ROOT / "examples" / "hello.py"
    with subprocess.Popen(
        [sys.executable, str(hello)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        for line in first.stdout:
            if line == "hello ada\n":
                first.kill()
                break

    second = run(hello, tmp_path).stdout.splitlines()

    assert [line.split()[1] for line in second[:4]] == ["known"] * 4
    assert second[4:] == ["hello ada", "hello grace", "hello edsger", "hello barbara"]
