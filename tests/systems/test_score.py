"""The score of the demo: counted right, and wrong where something is wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from systems.demo.score import Line, Score
from systems.demo.script import steps


def counted(promises: list[tuple[str, str]], arrived: list[str], *, keyed: bool = False) -> Line:
    line = Line("reminders")
    line.count(
        [((key,), state) for key, state in promises], Counter((k,) for k in arrived), keyed=keyed
    )
    return line


def test_what_was_promised_and_arrived_once_is_delivered() -> None:
    line = counted([("a", "sent"), ("b", "sent")], ["a", "b"])
    assert (line.promised, line.delivered, line.lost, line.twice) == (2, 2, 0, 0)


def test_what_we_call_sent_and_the_receiver_does_not_have_is_lost() -> None:
    line = counted([("a", "sent")], [])
    assert (line.lost, line.examples) == (1, ["lost: ('a',)"])


def test_what_arrived_more_than_once_is_twice_unless_the_receiver_knows_keys() -> None:
    assert counted([("a", "sent")], ["a", "a"]).twice == 1
    assert counted([("a", "sent")], ["a", "a"], keyed=True).twice == 0


@pytest.mark.parametrize("arrived", [[], ["a"]])
def test_what_nobody_can_tell_is_unsure_and_neither_lost_nor_delivered(arrived: list[str]) -> None:
    line = counted([("a", "unsure")], arrived)
    assert (line.unsure, line.lost, line.delivered) == (1, 0, 0)


def test_an_unsure_one_that_came_twice_is_twice_all_the_same() -> None:
    assert counted([("a", "unsure")], ["a", "a"]).twice == 1


def test_what_is_neither_over_nor_there_is_on_its_way() -> None:
    line = counted([("a", "sending"), ("b", "failed")], [])
    assert (line.on_the_way, line.failed) == (1, 1)


def test_what_has_arrived_before_we_know_of_it_counts_as_delivered() -> None:
    assert counted([("a", "sending")], ["a"]).delivered == 1


def test_totals_of_messages_leave_stored_rows_out_and_losses_do_not() -> None:
    score = Score([Line("mailroom", 5, 5), Line("strides", 100, 99, 1)])
    assert (score.total("promised"), score.everywhere("lost")) == (5, 1)
    assert "promised 5 · delivered 5 · lost 1" in str(score)


def test_every_step_of_the_script_is_there_and_in_order() -> None:
    found = steps()
    assert [step.at for step in found] == sorted(step.at for step in found)
    assert found[-1].at <= 165
