"""What all tests share, of the package and of the systems: a PostgreSQL, and how long each folder took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.postgres import Server, server

# Seconds by folder, summed over the processes that tests are spread over.
_took: Counter[str] = Counter()
WORTH_SAYING = 60


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One for each process of the tests; what is stopped, or has to be durable, is a test's own."""
    with server(durable=False) as running:
        yield running


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    folder = report.nodeid.split("::")[0].rpartition("/")[0]
    _took["/".join(folder.split("/")[:2]) or "."] += report.duration


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if sum(_took.values()) < WORTH_SAYING:
        return
    processes = _spread(config)
    terminalreporter.section("time by folder")
    for folder, seconds in _took.most_common():
        terminalreporter.write_line(f"{seconds / processes:7.1f} s  {folder}")


def _spread(config: pytest.Config) -> int:
    """How many processes tests were spread over."""
    chosen = config.getoption("numprocesses", default=None)
    return chosen if isinstance(chosen, int) and chosen > 0 else 1
