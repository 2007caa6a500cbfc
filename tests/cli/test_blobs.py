"""`duework blobs` on a database of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from duework import App
from tests.cli.conftest import Duework


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DUEWORK_BLOBS", str(tmp_path / "contents"))
    return tmp_path


def test_blobs_are_put_listed_shown_got_and_deleted(
    folder: Path, shop: App, duework: Duework
) -> None:
    (folder / "page.html").write_text("<p>x</p>")
    assert "no blobs" in duework("blobs", "list").out

    put = duework("blobs", "put", "app/42", folder / "page.html", "--ttl", "30d", "--json")
    again = duework("blobs", "put", "app/42", folder / "page.html", "--if-absent")
    lines = duework("blobs", "list", "app/", "--json").lines
    shown = duework("blobs", "show", "app/42")
    got = duework("blobs", "get", "app/42", folder / "copy.html")

    assert put.document["new"] is True
    assert "left as it is" in again.out
    assert [(line["key"], line["size"]) for line in lines] == [("app/42", 8)]
    assert "app/42" in duework("blobs", "list").out
    assert put.document["digest"] in shown.out
    assert got.code == 0
    assert (folder / "copy.html").read_text() == "<p>x</p>"
    assert "is there already" in duework("blobs", "get", "app/42", folder / "copy.html").err
    assert duework("blobs", "delete", "app/42", "--yes").code == 0
    assert duework("blobs", "show", "app/42").code != 0
