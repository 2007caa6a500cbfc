"""`duework objects` on a database of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from duework import App, DurableObject
from tests.cli.conftest import HOSTILE, Duework


class Shelf(DurableObject):
    def put(self, book: str) -> None:
        self.sql("create table if not exists book (title text)")
        self.sql("insert into book values (:book)", book=book)
        self.set_alarm("1h")

    async def alarm(self) -> None:
        """Nothing to do."""


@pytest.fixture
def library(shop: App) -> App:
    for key in ("a", "b", HOSTILE):
        shop.object(Shelf, key).put("emma").result()
    return shop


def test_objects_are_listed_and_shown(library: App, duework: Duework) -> None:
    listed = duework("objects", "list")
    lines = duework("objects", "list", "Shelf", "--prefix", "a", "--json").lines
    shown = duework("objects", "show", "Shelf", "a", "--json").document

    assert listed.code == 0
    assert "\x1b" not in listed.out
    assert max(map(len, listed.out.splitlines())) <= 80
    assert [(line["kind"], line["key"], line["version"]) for line in lines] == [("Shelf", "a", 1)]
    assert shown["tables"] == {"book": 1}
    assert shown["alarm"] > library.now()
    shown_to_people = duework("objects", "show", "Shelf", "a").out
    assert shown_to_people.startswith("kind ")
    assert "rows of book" in shown_to_people
    assert duework("objects", "show", "Shelf", "none").code != 0


def test_an_object_goes_to_a_file_and_comes_back(
    library: App, duework: Duework, tmp_path: Path
) -> None:
    file = tmp_path / "shelf.db"
    assert duework("objects", "export", "Shelf", "a", file).code == 0
    library.object(Shelf, "a").put("persuasion").result()

    refused = duework("objects", "import", "Shelf", "a", file)
    ran = duework("objects", "import", "Shelf", "a", file, "--yes", "--json")

    assert refused.code != 0
    assert ran.document["version"] == 3
    assert library.object(Shelf, "a").tables() == {"book": 1}
    assert duework("objects", "export", "Shelf", "a", file).code != 0


def test_an_object_is_deleted_only_by_who_is_sure(library: App, duework: Duework) -> None:
    refused = duework("objects", "delete", "Shelf", "a")
    ran = duework("objects", "delete", "Shelf", "a", "--yes", "--json")

    assert refused.code != 0
    assert ran.document == {"kind": "Shelf", "key": "a", "state": "deleted"}
    assert [one.key for one in library.objects("Shelf")] == sorted([HOSTILE, "b"])
    assert len(library.jobs(task="Shelf.alarm")) == 2
    assert duework("objects", "delete", "Shelf", "a", "--yes").code != 0
