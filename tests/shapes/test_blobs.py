"""Blobs as users see them: whole or not there, over in time, on both databases."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duework import App, Conflict, Gone, NotFound, UsageError
from duework.shapes.blobs import verbs
from duework.shapes.blobs.handle import doom
from duework.testing import Harness
from tests.support.checks import is_sound

DAY = 86_400_000


def files(h: Harness) -> list[Path]:
    folder = Path(str(h.app.wiring.bound.blobs))
    return [path for path in folder.rglob("*") if path.is_file()]


def keep_house(h: Harness) -> None:
    h.app.wiring.arm_housekeeping()


def test_a_blob_is_put_found_listed_and_deleted(harness: Harness) -> None:
    blobs = harness.app.blobs

    made = blobs.put("app/42/page.html", "<p>ö</p>", metadata={"scraped_at": "now"})

    assert blobs.get("app/42/page.html") == "<p>ö</p>".encode()
    assert (made.new, made.size, made.expires) == (True, 9, None)
    assert made.content_type == "text/plain; charset=utf-8"
    assert blobs.info("app/42/page.html").metadata == {"scraped_at": "now"}
    assert blobs.exists("app/42/page.html")
    assert [each.key for each in blobs.list("app/")] == ["app/42/page.html"]
    assert blobs.list("app/", after="app/42/page.html") == []
    assert blobs.delete("app/42/page.html") is True
    assert blobs.delete("app/42/page.html") is False
    assert blobs.get("app/42/page.html") is None
    with pytest.raises(NotFound):
        blobs.info("app/42/page.html")
    is_sound(harness)


def test_keys_are_listed_in_one_order_on_every_database(harness: Harness) -> None:
    for key in ("b", "a/2", "B", "ä", "a/1", "a%", "a_"):
        harness.app.blobs.put(key, b"")

    listed = [each.key for each in harness.app.blobs.list()]

    assert listed == sorted(listed)
    assert [each.key for each in harness.app.blobs.list("a/")] == ["a/1", "a/2"]
    assert [each.key for each in harness.app.blobs.list(after="a/1", limit=1)] == ["a/2"]


def test_what_is_replaced_is_deleted_later_and_who_reads_it_goes_on(harness: Harness) -> None:
    keep_house(harness)
    harness.app.blobs.put("page", b"old")
    reader = harness.app.blobs.open("page")
    harness.app.blobs.put("page", b"new")

    harness.app.blobs.collect()
    assert len(files(harness)) == 2
    harness.advance("2h")

    assert len(files(harness)) == 1
    assert harness.app.blobs.get("page") == b"new"
    with reader:
        assert reader.read() == b"old"
    is_sound(harness)


def test_a_blob_is_over_at_the_millisecond_and_its_content_soon_after(harness: Harness) -> None:
    keep_house(harness)
    blobs = harness.app.blobs
    made = blobs.put("page", b"x", ttl="30d")
    assert made.expires == harness.now + 30 * DAY

    harness.clock.move_to(harness.now + 30 * DAY - 1)
    assert blobs.get("page") == b"x"
    harness.clock.move_to(harness.now + 1)
    assert blobs.get("page") is None
    assert blobs.list() == []
    harness.advance("2h")

    assert files(harness) == []
    assert harness.app.read("select * from duework_blob") == []
    assert harness.app.read("select * from duework_blob_trash") == []


def test_a_cache_asks_for_no_more_than_an_age(harness: Harness) -> None:
    harness.app.blobs.put("page", b"x")
    harness.advance("1h")

    assert harness.app.blobs.get("page", max_age="2h") == b"x"
    assert harness.app.blobs.get("page", max_age="1h") is None
    assert not harness.app.blobs.exists("page", max_age="1h")
    with pytest.raises(NotFound):
        harness.app.blobs.open("page", max_age="1h")


def test_if_absent_the_first_one_stays_until_it_is_over(harness: Harness) -> None:
    keep_house(harness)
    blobs = harness.app.blobs
    assert blobs.put("page", b"first", ttl="1h", if_absent=True).new

    assert not blobs.put("page", b"second", if_absent=True).new
    assert blobs.get("page") == b"first"
    harness.clock.move_to(harness.now + 3_600_000)
    assert blobs.put("page", b"third", if_absent=True).new

    assert blobs.get("page") == b"third"
    harness.advance("2h")
    assert len(files(harness)) == 1
    is_sound(harness)


def test_of_many_who_put_if_absent_at_once_one_is_first(harness: Harness) -> None:
    keep_house(harness)
    made: list[Any] = []
    wait = threading.Barrier(8)

    def put(number: int) -> None:
        def pieces() -> Iterator[bytes]:
            wait.wait()
            yield str(number).encode()

        made.append(harness.app.blobs.put("page", pieces(), if_absent=True))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sum(each.new for each in made) == 1
    [first] = [each for each in made if each.new]
    assert {each.digest for each in made} == {first.digest}
    harness.advance("2h")
    assert len(files(harness)) == 1
    is_sound(harness)


def test_files_and_pieces_go_in_and_out_as_streams(harness: Harness) -> None:
    harness.app.blobs.put("file", io.BytesIO(b"x" * 3_000_000), content_type="video/mp4")
    harness.app.blobs.put("pieces", (bytes([n]) for n in range(200)))

    with harness.app.blobs.open("file") as file:
        assert file.read(10) == b"x" * 10
    assert harness.app.blobs.info("file").content_type == "video/mp4"
    assert harness.app.blobs.get("pieces") == bytes(range(200))


def test_a_stream_that_breaks_leaves_what_was_there(harness: Harness) -> None:
    keep_house(harness)
    harness.app.blobs.put("page", b"old")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the line broke")

    with pytest.raises(OSError, match="the line broke"):
        harness.app.blobs.put("page", pieces())

    assert harness.app.blobs.get("page") == b"old"
    harness.advance("2h")
    assert len(files(harness)) == 1
    is_sound(harness)


def test_what_takes_too_long_to_be_written_is_refused_and_nothing_is_changed(
    harness: Harness,
) -> None:
    keep_house(harness)
    harness.app.blobs.put("page", b"old")

    def pieces() -> Iterator[bytes]:
        harness.clock.move_to(harness.now + verbs.WRITING_MS)
        harness.drain()
        yield b"new"

    with pytest.raises(Conflict, match="took over an hour"):
        harness.app.blobs.put("page", pieces())

    assert harness.app.blobs.get("page") == b"old"
    is_sound(harness)


def test_what_is_about_to_be_deleted_can_not_be_kept_any_more(harness: Harness) -> None:
    writer, blobs = harness.app.wiring.engine.writer, harness.app.blobs
    writer.call(verbs.begin, [(7, harness.now)])
    row = verbs.NewBlob("page", 7, 0, "0" * 64, "x", "{}", harness.now, harness.now + 9, False)

    # The housekeeping is about to delete the file.
    assert writer.call(partial(doom, now=harness.now), [None]) == [[7]]
    with pytest.raises(Conflict, match="took over an hour"):
        writer.call(verbs.put, [row])

    assert blobs.list() == []


def test_bad_input_changes_nothing(harness: Harness) -> None:
    blobs = harness.app.blobs
    for key in ("", "a\nb", "x" * 1001, 7):
        with pytest.raises(UsageError, match="a blob's key is"):
            blobs.put(key, b"")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pieces of a blob are bytes"):
        blobs.put("page", ["text"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="a blob is bytes"):
        blobs.put("page", 7)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="more than nothing"):
        blobs.put("page", b"", ttl=0)
    with pytest.raises(UsageError, match="dict of texts"):
        blobs.put("page", b"", metadata={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="over 10000"):
        blobs.put("page", b"", metadata={"a": "x" * 10_000})

    assert blobs.list() == []


def test_a_content_that_was_lost_or_changed_is_said_and_not_given(harness: Harness) -> None:
    harness.app.blobs.put("page", b"x")
    [file] = files(harness)

    file.write_bytes(b"y")
    with pytest.raises(Gone, match="not what was put"):
        harness.app.blobs.get("page")
    file.unlink()
    with pytest.raises(Gone, match="DUEWORK_BLOBS"):
        harness.app.blobs.get("page")


def test_the_async_twins_do_the_same(harness: Harness) -> None:
    blobs = harness.app.blobs

    async def main() -> None:
        await blobs.aput("page", b"x")
        assert await blobs.aget("page") == b"x"
        assert await blobs.aexists("page")
        assert (await blobs.ainfo("page")).size == 1
        assert len(await blobs.alist()) == 1
        assert await blobs.adelete("page")

    asyncio.run(main())


def test_contents_are_beside_the_database_or_where_they_are_said_to_be(
    url: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(url)
    if kind == "postgres":
        with pytest.raises(UsageError, match="that all machines share"):
            app.blobs.put("page", b"x")
    else:
        app.blobs.put("page", b"x")
        assert len(list((tmp_path / "work.blobs").rglob("*"))) == 2
    app.close()

    monkeypatch.setenv("DUEWORK_BLOBS", (tmp_path / "a folder").as_uri())
    app = App(url)
    app.blobs.put("other", b"x")
    assert len(list((tmp_path / "a folder").rglob("*"))) == 2
    app.close()
    app = App(url, blobs="ftp://host")
    with pytest.raises(UsageError, match="ftp"):
        app.blobs.put("page", b"x")
    app.close()


KILLED = """
import os, signal, sys
from duework import App

def pieces():
    yield b"half" * 100_000
    os.kill(os.getpid(), signal.SIGKILL)
    yield b"whole"

app = App(sys.argv[1], blobs=sys.argv[2])
app.blobs.put("page", b"old")
app.blobs.put("page", pieces())
"""


def test_a_process_that_is_killed_while_it_writes_shows_no_half(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "contents"

    killed = subprocess.run([sys.executable, "-c", KILLED, url, str(folder)], check=False)

    assert killed.returncode == -signal.SIGKILL
    app = App(url, blobs=str(folder))
    assert app.blobs.get("page") == b"old"
    names = [name for _, _, found in os.walk(folder) for name in found]
    assert sorted(name.endswith(".part") for name in names) == [False, True]
    # Named before it was written: the housekeeping will find it.
    assert len(app.read("select * from duework_blob_trash")) == 1
    app.close()
