"""What the proof makes of its results: when a section holds, and how the page says so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proof import run
from proof.disk import Disk
from proof.report import About, Entry, page, verdict
from proof.run import _in_a_process
from proof.section import Result

ABOUT = About("full", {"cores": "2"})


def entry(result: Result) -> Entry:
    when = "2026-01-01 00:00 UTC"
    return Entry("kills", "Killed: often", "Nothing is lost.", result, 125.0, when, "abc")


def test_a_section_holds_only_if_it_did_its_work_and_found_what_was_planted() -> None:
    good = Result(counts={"kills": 10}, floors={"kills": 10}, planted={"a bug": True})

    assert good.problems() == []
    assert Result(counts={"kills": 9}, floors={"kills": 10}).problems() == [
        "only 9 kills, wanted 10"
    ]
    assert Result(floors={"kills": 1}).problems() == ["only 0 kills, wanted 1"]
    assert Result(planted={"a bug": False}).problems() == ["planted and not found: a bug"]
    assert Result(violations=["lost"]).problems() == ["lost"]


def test_the_page_has_the_counts_the_planted_bugs_and_what_is_not_promised() -> None:
    result = Result(7, {"kills": 1234}, {"kills": 10}, {"a bug": True}, notes=["a note"])
    result.not_promised.append("the moon")

    text = page(ABOUT, [entry(result)])

    assert "[Killed: often](#killed-often) | holds" in text
    assert "| kills | 1,234 | 10 |" in text
    assert "- a bug: found" in text
    assert "- a note" in text
    assert text.rstrip().endswith("- the moon")
    assert "2 min 5 s" in text
    assert "| 2026-01-01 00:00 UTC | abc |" in text


def test_the_page_names_a_section_of_which_there_is_no_result() -> None:
    text = page(ABOUT, [entry(Result())], ["Power lost"])

    assert "| Power lost | not run at this scale |" in text


def test_a_section_that_is_run_again_is_read_as_it_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "KEPT", tmp_path / "proof")
    first = entry(Result(7, {"kills": 1234}, {"kills": 10}, {"a bug": True}, ["lost"], ["a note"]))

    assert run.kept("kills") is None
    run.keep(first)

    assert run.kept("kills") == first


def test_the_page_does_not_hide_a_problem() -> None:
    text = page(ABOUT, [entry(Result(violations=["job 7 is lost"]))])

    assert verdict(entry(Result(violations=["job 7 is lost"]))) == "1 problem"
    assert "1 problem" in text
    assert "- job 7 is lost" in text


def test_a_section_that_dies_is_a_problem_and_not_the_end_of_the_run() -> None:
    said: list[object] = []

    result = _in_a_process("no such section", "short", 7, said.append)

    assert said == []
    assert result.problems() == ["the section ended without a result (2)"]


def test_a_disk_forgets_what_was_not_synced_and_what_its_folder_does_not_know() -> None:
    chance = random.Random(1)  # noqa: S311 - no secret
    disk = Disk()
    disk.feed(("create", "a"))
    disk.feed(("write", "a", 0, b"one"))

    assert disk.image("keep", chance) == {"a": b"one"}
    assert disk.image("drop", chance) == {}

    disk.feed(("sync", "a"))
    disk.feed(("folder",))
    disk.feed(("write", "a", 3, b"two"))

    assert disk.image("drop", chance) == {"a": b"one"}
    assert disk.image("keep", chance) == {"a": b"onetwo"}
    assert {disk.image("prefix", chance)["a"] for _ in range(50)} == {b"one", b"onetwo"}

    disk.feed(("delete", "a"))

    assert disk.image("keep", chance) == {}
    assert disk.image("drop", chance) == {"a": b"one"}

    disk.feed(("folder",))

    assert disk.image("drop", chance) == {}
