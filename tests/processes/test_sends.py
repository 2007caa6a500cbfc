"""kill -9 inside a send, asserted against what the receiver's ledger says was delivered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import Bench, until
from tests.support.receiver import Receiver

pytestmark = pytest.mark.slow

LONG = {"lease": "60s"}


def test_a_delivery_killed_inside_its_sends_is_delivered_once_by_each_channel(
    desk: Bench,
) -> None:
    with Receiver(keys=True) as there:
        there.then("hold", "hold")
        first = desk.start(**LONG)
        job = desk.tasks.letter.enqueue(there.url)
        until(lambda: len(there.delivered) == 2)

        first.kill()
        there.release()
        desk.start(**LONG)
        [done] = desk.settled([job])

    assert sorted(there.delivered) == ["keyed", "plain"]
    assert there.requests.count(None) == 1
    assert there.requests.count(f"letter:{job.id}:keyed") == 2
    found = {each.channel: each.state for each in desk.tasks.letter.channels(job)}
    assert found == {"keyed": "sent", "plain": "unsure"}
    assert (done.state, done.result["outcome"]) == ("done", "partial")


def test_a_message_killed_inside_its_submit_is_taken_once_and_unsure_without_a_memory_of_keys(
    desk: Bench,
) -> None:
    with Receiver(keys=True) as there:
        there.then("hold", "hold")
        first = desk.start(**LONG)
        boxes = [desk.tasks.mindful, desk.tasks.forgetful]
        rows = [box.enqueue(there.url) for box in boxes]
        until(lambda: len(there.delivered) == 2)

        first.kill()
        there.release()
        desk.start(**LONG)
        until(lambda: all(boxes[0].get_message(row.id).settled for row in rows))

    assert sorted(there.delivered) == ["forgetful", "mindful"]
    assert [there.requests.count(row.key) for row in rows] == [2, 1]
    assert [boxes[0].get_message(row.id).state for row in rows] == ["sent", "unsure"]


def test_what_is_killed_before_anything_of_it_has_left_is_sent_and_not_unsure(
    desk: Bench, tmp_path: Path
) -> None:
    there = [tmp_path / f"there{number}" for number in range(3)]
    first = desk.start(**LONG)
    box = desk.tasks.careful
    rows = [box.enqueue(str(path)) for path in there[:2]]
    job = desk.tasks.careful_letter.enqueue(str(there[2]))
    until(lambda: all(path.exists() for path in there))

    first.kill()
    desk.start(**LONG)
    until(lambda: all(box.get_message(row.id).settled for row in rows))
    desk.settled([job])

    assert [path.read_text() for path in there] == ["sent\n"] * 3
    assert [box.get_message(row.id).state for row in rows] == ["sent", "sent"]
    [channel] = desk.tasks.careful_letter.channels(job)
    assert channel.state == "sent"
