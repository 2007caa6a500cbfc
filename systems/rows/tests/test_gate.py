"""The gate itself: it counts, and it finds what is wrong."""

from __future__ import annotations

from pathlib import Path

from systems.rows.gate import check


def tree(root: Path, *, test: str = "", rows: str = "") -> Path:
    folder = root / "systems" / "streaks"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "test_some.py").write_text(test)
    (folder / "rows.toml").write_text(rows)
    return root


def test_the_rows_of_this_project_are_in_order() -> None:
    counts, wrong = check()
    assert wrong == []
    assert sum(len(c.built) + len(c.refuted) + len(c.open) for c in counts.values()) == 511


def test_a_mark_builds_its_row_and_a_reason_refutes_one(tmp_path: Path) -> None:
    test = '@pytest.mark.rows("000-04", "000-05")\ndef test_a() -> None: ...\n'
    counts, wrong = check(tree(tmp_path, test=test, rows='[refuted]\n000-01 = "no edge here"\n'))
    assert wrong == []
    assert counts["streaks"].built == {"000-04", "000-05"}
    assert counts["streaks"].refuted == {"000-01"}
    assert "000-06" in counts["streaks"].open


def test_a_mark_without_a_row_is_wrong(tmp_path: Path) -> None:
    test = '@pytest.mark.rows("000-999")\ndef test_a() -> None: ...\n'
    assert "000-999" in check(tree(tmp_path, test=test))[1][0]


def test_what_is_asked_for_is_refuted_only_by_a_decision(tmp_path: Path) -> None:
    rows = '[refuted]\n000-04 = "we do not feel like it"\n000-05 = "see decision 0050"\n'
    wrong = check(tree(tmp_path, rows=rows))[1]
    assert len(wrong) == 1
    assert "000-04" in wrong[0]


def test_a_row_that_a_test_carries_is_not_refuted(tmp_path: Path) -> None:
    test = '@pytest.mark.rows("000-01")\ndef test_a() -> None: ...\n'
    wrong = check(tree(tmp_path, test=test, rows='[refuted]\n000-01 = "no edge here"\n'))[1]
    assert "a test carries" in wrong[0]


def test_a_system_that_says_it_is_whole_has_no_open_row(tmp_path: Path) -> None:
    assert "whole" in check(tree(tmp_path, rows="whole = true\n"))[1][0]
