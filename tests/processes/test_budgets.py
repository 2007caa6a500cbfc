"""Two processes against one budget: together they never spend more than there is."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest

from duework import App

pytestmark = pytest.mark.slow

# Each of them takes more than half of what there is if it can, from four threads.
PROGRAM = """
import sys, threading
from duework import App, BudgetSpent

app = App(sys.argv[1])
llm = app.budget("llm", limit="1", per="month")
got = []

def spend():
    for number in range(40):
        if len(got) >= 60:
            return
        try:
            with llm.reserve("0.01") as one:
                if number % 4 == 0:
                    one.release()
                else:
                    got.append(1)
        except BudgetSpent:
            pass

print("ready", flush=True)
input()
threads = [threading.Thread(target=spend) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(len(got))
app.close()
"""


def test_two_processes_never_overspend_a_budget(url: str) -> None:
    app = App(url)
    llm = app.budget("llm", limit="1", per="month")
    llm.status()
    command = [sys.executable, "-c", PROGRAM, url]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    counts = [int(each.communicate(timeout=120)[0]) for each in running]

    found = llm.status()
    # Both wanted more than there is, got all of it, and not a millionth more.
    assert sum(counts) == 100
    assert all(counts)
    assert (found.spent, found.reserved, found.left) == (Decimal(1), 0, 0)
    settled = [each for each in found.ledger(limit=1000) if each.state == "settled"]
    assert len(settled) == 100
    assert [each for each in app.admin.verify() if each.violations] == []
    app.close()
