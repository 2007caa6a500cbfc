"""What the benchmarks make of their samples; the scenarios themselves are run by `make bench`."""

from __future__ import annotations

import io
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from rich.console import Console

from bench import history, table
from bench.bed import Bed, ScenarioFailed, Talker, talking
from bench.figures import Figure, at_least, at_most, percentile, results
from bench.history import Record
from bench.marks import Marks
from bench.run import SCENARIOS, _chosen
from bench.scenarios import kill, raw_sqlite
from bench.scenarios.peers import PEERS, _by_turns, scenarios

BASE = Figure("base", "the bare loop", "/s")


def record(samples: dict[str, list[float]], **more: object) -> Record:
    fields = {"when": "2026-01-01", "commit": "abc", "dirty": False, "full": True, "peers": True}
    sizes = {"repeat": 3, "seconds": 1.0, "machine": {}, "samples": samples}
    return Record(**{**fields, **sizes, **more})


def test_a_ratio_is_formed_within_each_round() -> None:
    figure = Figure("ours", "ours", "/s", (at_least(0.5, of="base"),))
    samples = {"base": [100, 10, 50], "ours": [60, 6, 30]}

    [result] = results([figure], samples)

    assert result.ratios == [0.6, 0.6, 0.6]
    assert result.met is True


def test_every_bar_of_a_figure_has_to_be_cleared() -> None:
    figure = Figure("ours", "ours", "/s", (at_least(1000), at_least(0.5, of="base")))

    [slow] = results([figure], {"base": [100.0], "ours": [60.0]})
    [unknown] = results([figure], {"ours": [6000.0]})

    assert slow.met is False
    assert unknown.met is None


def test_one_bad_round_spoils_what_counts_by_its_worst() -> None:
    figure = Figure("lost", "lost", "jobs", (at_most(0),), counts="worst")

    [result] = results([figure], {"lost": [0, 1, 0]})

    assert result.value == 1
    assert result.met is False


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile(range(1, 101), 0.5) == 50
    assert percentile([7.0], 0.999) == 7.0


def test_a_killed_process_leaves_its_marks(tmp_path: Path) -> None:
    writer, reader = Marks(tmp_path / "marks", 3), Marks(tmp_path / "marks")

    writer.start(1)
    writer.start(1)
    writer.end(1)

    assert reader.starts[1] == 2
    assert 0 < reader.first[1] <= reader.last[1]
    assert reader.ended() == 1
    assert reader.ended(1) == 0


def test_every_figure_has_a_name_of_its_own() -> None:
    found = [figure for scenario in _chosen("", with_peers=True) for figure in scenario.FIGURES]

    names = [figure.name for figure in found]

    assert len(names) == len(set(names))
    assert {figure.base for figure in found} - {None} <= set(names)


def test_a_missing_peer_is_said_and_not_skipped() -> None:
    peer = PEERS[0]
    told = record({}, missing={peer.name: "not installed"})

    lines = {row[0]: row[1] for row in table.peer_rows(told)}

    assert lines[peer.name] == "missing: not installed"
    assert [name for name in lines if not name.startswith("Duework")] == [p.name for p in PEERS]


def test_a_missing_peer_is_named_as_its_scenario_is() -> None:
    assert [scenario.NAME for scenario in scenarios()] == [peer.name for peer in PEERS]


def test_the_table_fits_a_hundred_columns() -> None:
    figures = [f for scenario in _chosen("", with_peers=True) for f in scenario.FIGURES]
    told = record({figure.name: [123_456.7, 98.7, 1_234_567.0] for figure in figures})
    output = io.StringIO()

    table.show(Console(file=output, width=table.WIDTH), figures, told)

    assert max(map(len, output.getvalue().splitlines())) <= 100


def test_the_last_full_run_is_what_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history.append(record({"drain": [1.23456789]}, commit="first"), path)
    history.append(record({}, commit="second", peers=False), path)
    history.append(record({}, commit="third", full=False), path)

    found = history.load(path)

    assert [each.commit for each in found] == ["first", "second", "third"]
    assert found[0].samples == {"drain": [1.2346]}
    assert history.last(found) == found[1]
    assert history.last(found, peers=True) == found[0]


@pytest.mark.slow
def test_a_scenario_answers_with_its_figures() -> None:
    bed = Bed(quick=True)

    try:
        raw, killed = raw_sqlite.sample(bed), kill.sample(bed)
    finally:
        bed.close()

    assert set(raw) == {figure.name for figure in raw_sqlite.FIGURES}
    assert set(killed) == {figure.name for figure in kill.FIGURES}
    assert killed["kill_lost"] == killed["kill_twice"] == 0
    assert all(rate > 0 for rate in raw.values())


TURNER = """
import sys
from pathlib import Path
from bench.peers.protocol import await_turn
for _ in range(int(sys.argv[2])):
    await_turn()
    with Path(sys.argv[1]).open("a") as log:
        log.write(sys.argv[3])
print([[number, 0] for number in range(8)], flush=True)
"""


@pytest.mark.parametrize(
    ("theirs", "ours", "order"), [(3, 3, "tototo"), (1, 3, "tooo"), (2, 0, "tt")]
)
def test_a_peer_and_we_are_measured_by_turns(
    tmp_path: Path, theirs: int, ours: int, order: str
) -> None:
    log = tmp_path / "log"

    def turner(count: int, letter: str) -> AbstractContextManager[Talker]:
        command = [sys.executable, "-c", TURNER, str(log), str(count), letter]
        return talking(command, dict(os.environ))

    with turner(theirs, "t") as first, turner(ours, "o") as second:
        found = _by_turns(first, second)

    assert log.read_text() == order
    # The first one of a turn comes after a longer pause.
    assert found == [[[number, 0] for number in (1, 2, 3, 4, 5, 7)]] * 2


@pytest.mark.parametrize(
    ("program", "what"),
    [("import sys; sys.exit('broken')", "broken"), ("print('hello')", "said .*hello")],
)
def test_a_process_that_does_not_answer_is_an_error_that_says_why(program: str, what: str) -> None:
    with talking([sys.executable, "-c", program], dict(os.environ)) as child:
        with pytest.raises(ScenarioFailed, match=what):
            child.listen(20)
        child.process.wait(20)
        with pytest.raises(ScenarioFailed, match="is gone"):
            child.go()


def test_all_scenarios_are_there() -> None:
    files = {path.stem for path in Path(raw_sqlite.__file__).parent.glob("[!_]*.py")}

    assert files == {*SCENARIOS, "peers"}
