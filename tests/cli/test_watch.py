"""`duework status --watch`: the same page again and again, bounded, until Ctrl-C."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from duework import App, Unavailable
from duework.cli import watch as watching
from duework.cli.out import Out
from tests.cli.conftest import Duework, enqueue


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have waited."""
    found: list[float] = []
    monkeypatch.setattr(watching, "pause", found.append)
    return found


def test_it_looks_as_often_as_it_is_told(shop: App, duework: Duework, pauses: list[float]) -> None:
    enqueue(shop, "greet", "ada")

    ran = duework("status", "--watch", "--times", 3, "--every", "5s")
    lines = duework("status", "--watch", "--times", 2, "--json").lines

    assert ran.code == 0
    assert ran.out.count("greet") == 3
    assert pauses == [5.0, 5.0, 2.0]
    assert [line["tasks"][0]["ready"] for line in lines] == [1, 1]


def test_nobody_looks_faster_than_one_reads(
    shop: App, duework: Duework, pauses: list[float]
) -> None:
    duework("status", "--watch", "--times", 2, "--every", "0s")

    assert pauses == [0.2]


def test_ctrl_c_ends_it_in_order(
    shop: App, duework: Duework, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "pause", interrupted)

    ran = duework("status", "--watch")

    assert (ran.code, ran.err) == (0, "")


def terminal(height: int) -> Out:
    out = Out(as_json=False)
    out.console = Console(file=io.StringIO(), force_terminal=True, width=60, height=height)
    return out


def drawn(out: Out) -> str:
    file: Any = out.console.file
    return str(file.getvalue())


def test_on_a_terminal_it_redraws_and_gives_the_screen_back(pauses: list[float]) -> None:
    out, pages = terminal(10), iter(["one", "two"])

    watching.watch(out, lambda page: page.say(next(pages)), every=1.0, times=2)

    text = drawn(out)
    assert "one" in text
    assert "two" in text
    assert text.index("\x1b[?1049h") < text.index("one") < text.index("\x1b[?1049l")
    assert "\x1b[?25h" in text


def test_what_does_not_fit_is_counted(pauses: list[float]) -> None:
    out = terminal(5)

    def show(page: Out) -> None:
        for number in range(20):
            page.say(f"line {number}")

    watching.watch(out, show, every=1.0, times=1)

    assert "… 17 more lines" in drawn(out)
    assert "line 3" not in drawn(out)


def test_a_database_that_is_away_for_a_while_does_not_end_it(pauses: list[float]) -> None:
    out, looks = terminal(10), iter([Unavailable("it is away"), None])

    def show(page: Out) -> None:
        if (error := next(looks)) is not None:
            raise error
        page.say("back again")

    watching.watch(out, show, every=1.0, times=2)

    assert "it is away" in drawn(out)
    assert "back again" in drawn(out)


def test_a_look_costs_the_same_however_many_jobs_there_are(
    shop: App, duework: Duework, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duework.db.postgres.tx import PostgresTx
    from duework.db.sqlite.tx import SqliteTx

    seen: list[str] = []
    for kind in (SqliteTx, PostgresTx):

        def counting(self: Any, statement: Any, values: Any, _run: Any = kind.query) -> Any:
            seen.append(statement.name)
            return _run(self, statement, values)

        monkeypatch.setattr(kind, "query", counting)

    def cost() -> int:
        seen.clear()
        duework("status", "--watch", "--times", 1)
        return len(seen)

    enqueue(shop, "greet", "ada")
    few = cost()
    for number in range(100):
        enqueue(shop, "greet", f"{number}")

    assert cost() == few
