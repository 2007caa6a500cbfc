"""Blobs, with the process lost before each statement in turn: whole or as before, nothing left over."""

from __future__ import annotations

from pathlib import Path

import pytest

from duework import Run
from duework.testing import Harness
from tests.crash.test_crash import EFFECT, MOST, forget, nothing_is_held
from tests.support.checks import is_sound


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write(EFFECT)
    return harness


def test_a_lost_process_leaves_the_old_or_the_new_and_no_file_of_nobody(h: Harness) -> None:
    blobs = h.app.blobs

    @h.app.task
    def scrape(run: Run) -> None:
        blobs.put("page", b"new", ttl="1d")
        blobs.put("once", b"only", if_absent=True)
        blobs.delete("gone")

    for k in range(1, MOST):
        forget(h)
        blobs.put("page", b"old")
        blobs.put("gone", b"old")
        scrape.enqueue()
        crashed = h.crash_worker(at=k)
        assert blobs.get("page") in {b"old", b"new"}
        assert blobs.get("gone") in {b"old", None}
        h.advance("1h")
        nothing_is_held(h)
        assert blobs.get("page") == b"new"
        assert (blobs.get("once"), blobs.get("gone")) == (b"only", None)
        h.clock.move_to(h.now + 90_000_000)
        blobs.collect()
        h.clock.move_to(h.now + 90_000)
        blobs.collect()

        folder = Path(str(h.app.wiring.bound.blobs))
        assert len([path for path in folder.rglob("*") if path.is_file()]) == 1
        assert [each.key for each in blobs.list()] == ["once"]
        is_sound(h)
        blobs.delete("once")
        if not crashed:
            assert k > 15
            return
    pytest.fail("it never got through")


def test_a_housekeeping_that_is_lost_deletes_no_content_of_a_blob(h: Harness) -> None:
    blobs = h.app.blobs
    for k in range(1, MOST):
        forget(h)
        h.app.wiring.arm_housekeeping()
        h.drain()
        blobs.put("short", b"short", ttl="30s")
        blobs.put("page", b"old")
        blobs.put("page", b"new")
        h.clock.move_to(h.now + 3_700_000)
        crashed = h.crash_worker(at=k)
        h.advance("2h")

        folder = Path(str(h.app.wiring.bound.blobs))
        assert blobs.get("page") == b"new"
        assert len([path for path in folder.rglob("*") if path.is_file()]) == 1
        assert h.app.read("select * from duework_blob_trash") == []
        if not crashed:
            assert k > 10
            return
    pytest.fail("it never got through")
