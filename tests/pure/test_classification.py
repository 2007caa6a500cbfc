"""What the states of a delivery's channels say of the whole, by properties."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework.errors import UsageError
from duework.shapes.deliveries.channels import Sending, advances, classify, to_resend

ENDED = st.sampled_from(["sent", "failed", "unsure"])
STATES = st.lists(ENDED, min_size=1, max_size=6)
PARTIAL: Any = st.sampled_from(["advance", "retry-failed"])


def channel(name: int, state: Any, *, given_up: bool) -> Sending:
    return Sending(*(str(name), "k", "{}", state, 1, 1, 1, given_up, False, None, None, None, None))


CHANNELS = st.lists(st.tuples(ENDED, st.booleans()), min_size=1, max_size=6).map(
    lambda drawn: [channel(n, state, given_up=up) for n, (state, up) in enumerate(drawn)]
)


@given(STATES)
def test_success_is_all_sent_failure_is_all_failed_and_the_rest_is_partial(
    states: list[str],
) -> None:
    verdict = classify(states)

    assert (verdict == "success") == all(state == "sent" for state in states)
    assert (verdict == "failure") == all(state == "failed" for state in states)


@given(STATES, st.randoms())
def test_the_order_and_number_of_channels_do_not_matter(states: list[str], chance: Any) -> None:
    shuffled = [*states, *states]
    chance.shuffle(shuffled)

    assert classify(shuffled) == classify(states)


@given(STATES, PARTIAL)
def test_only_a_failed_channel_keeps_a_delivery_from_advancing(
    states: list[str], partial: Literal["advance", "retry-failed"]
) -> None:
    if not advances(states, partial):
        assert "failed" in states
    if partial == "advance":
        assert advances(states, partial) == (classify(states) != "failure")
    else:
        assert advances(states, partial) == ("failed" not in states)


@given(CHANNELS, st.booleans())
def test_what_was_sent_or_may_have_been_is_never_sent_again(
    channels: list[Sending], by_hand: bool
) -> None:
    again = to_resend(channels, by_hand=by_hand)

    assert {each.state for each in again} <= {"failed"}
    assert by_hand or not any(each.given_up for each in again)
    if by_hand:
        assert len(again) == [each.state for each in channels].count("failed")


@pytest.mark.parametrize("states", [[], ["sending"], ["sent", ""], ["sent", "unheard of"]])
def test_no_channels_and_unknown_states_are_no_success(states: list[str]) -> None:
    with pytest.raises(UsageError):
        classify(states)
