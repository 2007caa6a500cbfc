"""Blobs whose contents are in a store that speaks S3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duework import Conflict, Gone
from duework.shapes.blobs import stores
from duework.shapes.blobs.remote import PART_BYTES
from duework.shapes.blobs.verbs import READING_MS, WRITING_MS
from duework.testing import Harness
from tests.support.s3 import Bucket, serving


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with serving() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        stores.remote.cache_clear()
        yield made
        stores.remote.cache_clear()


@pytest.fixture
def blobs(harness: Harness, bucket: Bucket) -> Any:
    harness.app.wiring.bound.blobs = "s3://pages/of mine"
    return harness.app.blobs


def test_a_blob_in_a_bucket_is_put_read_replaced_and_deleted(
    harness: Harness, blobs: Any, bucket: Bucket
) -> None:
    blobs.put("page.html", "<p>old", ttl="30d")
    blobs.put("page.html", "<p>new", metadata={"from": "a"})
    blobs.put("empty", b"")

    assert blobs.get("page.html") == b"<p>new"
    assert blobs.get("empty") == b""
    assert blobs.info("page.html").metadata == {"from": "a"}
    assert all(key.startswith("of mine/") for key in bucket.objects)
    assert len(bucket.objects) == 3
    assert blobs.delete("empty")
    harness.clock.move_to(harness.now + READING_MS)
    blobs.collect()
    assert list(bucket.objects.values()) == [b"<p>new"]


def test_a_large_one_goes_in_parts_and_is_read_as_a_stream(blobs: Any, bucket: Bucket) -> None:
    pieces = [bytes([number]) * (1 << 20) for number in range(20)]

    made = blobs.put("film", iter(pieces))

    assert sum(line.startswith("POST") for line in bucket.asked) == 2
    assert made.size == 20 << 20 > 2 * PART_BYTES
    with blobs.open("film") as file:
        assert file.read(3) == b"\0\0\0"
        assert file.read() == b"".join(pieces)[3:]


def test_a_stream_that_breaks_leaves_what_was_there_and_no_object(
    harness: Harness, blobs: Any, bucket: Bucket
) -> None:
    blobs.put("film", b"old")

    def breaking() -> Iterator[bytes]:
        yield b"x" * (3 * PART_BYTES)
        raise ValueError("the line is cut")

    with pytest.raises(Exception, match="the line is cut"):
        blobs.put("film", breaking())

    assert blobs.get("film") == b"old"
    assert len(bucket.objects) == 1
    harness.clock.move_to(harness.now + WRITING_MS)
    blobs.collect()
    assert harness.app.read("select content from duework_blob_trash") == []


def test_a_store_that_is_away_fails_what_needs_it_and_is_asked_again(
    harness: Harness, blobs: Any, bucket: Bucket
) -> None:
    blobs.put("page", b"old")
    blobs.put("page", b"new")
    harness.clock.move_to(harness.now + READING_MS)
    bucket.broken = True

    with pytest.raises(OSError, match="could not be written"):
        blobs.put("other", b"x")
    with pytest.raises(OSError, match="could not be read"):
        blobs.get("page")
    blobs.collect()
    assert len(bucket.objects) == 2
    bucket.broken = False
    blobs.collect()

    assert blobs.get("page") == b"new"
    assert len(bucket.objects) == 1
    assert blobs.info("page").size == 3
    assert not blobs.exists("other")


def test_a_content_that_somebody_took_away_is_said(blobs: Any, bucket: Bucket) -> None:
    blobs.put("page", b"x")
    bucket.objects.clear()

    with pytest.raises(Gone, match="s3://pages"):
        blobs.get("page")


def test_what_comes_too_late_to_be_kept_is_taken_away_again(
    harness: Harness, blobs: Any, bucket: Bucket
) -> None:
    def slow() -> Iterator[bytes]:
        yield b"a"
        harness.clock.move_to(harness.now + WRITING_MS)
        blobs.collect()
        yield b"b"

    with pytest.raises(Conflict, match="over an hour"):
        blobs.put("film", slow())

    assert bucket.objects == {}
    assert not blobs.exists("film")
