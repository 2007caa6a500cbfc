"""`run.spent`: what a job took of a quota and did not use is given back, and never more than that."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Chain, End, Next, Page, Quota, Rate, Retry, Run, Snooze, UsageError
from duework.testing import Harness
from tests.support.checks import is_sound

MINUTE = 60_000


def used(h: Harness, window: str = "15m") -> int:
    [pace] = h.app.paces(prefix="strava")
    count: int = pace.details[window]["used"]
    return count


@pytest.fixture
def strava() -> Quota:
    return Quota("strava", windows={"15m": 95, "1d": 1000})


@pytest.fixture
def sync(harness: Harness, strava: Quota) -> Any:
    """Takes six, and uses what it is told."""

    @harness.app.task(pace=strava.cost(6), retries=0)
    async def sync(run: Run, uses: int, error: str = "") -> None:
        run.spent(strava, uses)
        if error:
            raise ValueError(error)

    return sync


def test_a_quota_of_ninety_five_is_used_up_by_pages_that_take_six_and_use_five(
    harness: Harness, sync: Any
) -> None:
    sync.enqueue_many([(5,) for _ in range(40)])

    harness.drain()

    # Fifteen at once take 90; what they give back admits three more, and so on: 18 x 5 is 90.
    done = harness.app.read("select count(*) as n from duework_job where state = 'done'")[0].n
    assert (done, used(harness), used(harness, "1d")) == (18, 90, 90)
    is_sound(harness)
    harness.advance("15m")
    assert used(harness, "1d") == 180


def test_what_is_given_back_admits_what_waits_without_a_wait_for_the_window(
    harness: Harness, sync: Any
) -> None:
    start = harness.now
    sync.enqueue_many([(0,) for _ in range(30)])

    harness.drain()

    assert harness.now == start
    states = harness.app.read("select distinct state from duework_job where task = 'sync'")
    assert [row.state for row in states] == ["done"]
    assert used(harness) == 0


@pytest.mark.parametrize("ending", ["raise", "snooze", "retry"])
def test_it_is_given_back_however_the_attempt_ends(
    harness: Harness, strava: Quota, ending: str
) -> None:
    @harness.app.task(pace=strava.cost(6), retries=3)
    async def sync(run: Run) -> Any:
        run.spent(strava, 9)
        run.spent("strava", 2)
        if ending == "raise":
            raise ValueError("503")
        return Snooze("1h") if ending == "snooze" else Retry("1h")

    sync.enqueue()
    harness.drain()

    assert used(harness) == 2
    is_sound(harness)


def test_an_attempt_that_says_nothing_has_used_what_it_took(
    harness: Harness, strava: Quota
) -> None:
    @harness.app.task(pace=strava.cost(6))
    async def sync() -> None: ...

    sync.enqueue()
    harness.drain()

    assert used(harness) == 6


def test_what_was_used_beyond_what_was_taken_is_counted(harness: Harness, sync: Any) -> None:
    sync.enqueue(8)
    harness.drain()

    assert (used(harness), used(harness, "1d")) == (8, 8)
    is_sound(harness)


def test_nothing_is_given_back_to_a_window_that_began_since(
    harness: Harness, strava: Quota
) -> None:
    h = harness

    @h.app.task(pace=strava.cost(6))
    async def sync(run: Run, first: bool) -> None:
        if first:
            # The window turns while it runs.
            h.clock.move_to(h.now + 15 * MINUTE)
        run.spent(strava, 1)

    sync.enqueue(first=True)
    h.drain()
    assert (used(h), used(h, "1d")) == (0, 1)

    sync.enqueue(first=False)
    h.drain()
    assert (used(h), used(h, "1d")) == (1, 2)
    is_sound(h)


def test_nothing_is_given_back_of_what_the_upstream_has_counted(
    harness: Harness, strava: Quota
) -> None:
    @harness.app.task(pace=strava.cost(6))
    async def sync(run: Run, seen: int) -> None:
        strava.saw(used=seen)
        run.spent(strava, 5)

    sync.enqueue(50)
    harness.drain()
    sync.enqueue(0)
    harness.drain()

    # 50 by the upstream's count, of which the first has used five; then five of six.
    assert (used(harness), used(harness, "1d")) == (55, 10)


def test_a_page_of_a_chain_gives_back_and_a_queue_that_has_the_quota(
    harness: Harness, strava: Quota
) -> None:
    harness.app.queue("calls", pace=strava)

    @harness.app.chain(pace=Rate("100/1s"), queue="calls")
    async def pages(page: Page) -> Next | End:
        page.run.spent(strava, 0)
        return End() if page.number == 3 else Next(cursor=page.number)

    chain: Chain = pages.start()
    harness.advance("1m")

    assert chain.progress().state == "done"
    assert used(harness) == 0


def test_a_quota_that_the_job_does_not_take_or_half_a_call_is_refused(
    harness: Harness, strava: Quota
) -> None:
    other, errors = Quota("other", windows={"1d": 5}), []

    @harness.app.task(pace=strava)
    async def sync(run: Run) -> None:
        for wrong in ((other, 1), (strava, -1), (strava, 1.5), (strava, True), (None, 1)):
            with pytest.raises(UsageError) as raised:
                run.spent(*wrong)
            errors.append(str(raised.value))

    job = sync.enqueue()
    harness.drain()

    assert job.refresh().state == "done", job.refresh().error
    assert errors[0] == "sync takes nothing of Quota('other'); its quotas: strava"
    assert errors[1] == "what was spent is a whole number from 0 up, not -1"
    assert used(harness) == 1


def test_a_window_stored_by_earlier_code_gets_nothing_back_until_it_turns(
    harness: Harness, sync: Any
) -> None:
    sync.enqueue(6)
    harness.drain()
    [row] = harness.app.read("select state from duework_pace where name = 'strava'")
    import msgspec

    state = msgspec.json.decode(row.state)
    state["windows"] = [window[:3] for window in state["windows"]]
    with harness.app.transaction() as tx:
        text = msgspec.json.encode(state).decode()
        tx.write("update duework_pace set state = :state where name = 'strava'", state=text)

    sync.enqueue(1)
    harness.drain()
    assert used(harness) == 12
    harness.advance("15m")
    sync.enqueue(1)
    harness.drain()

    assert used(harness) == 1


def test_more_of_a_quota_is_taken_on_the_way_whole_or_not_at_all(
    harness: Harness, sync: Any
) -> None:
    sync.enqueue(6)
    harness.drain()

    assert harness.app.take_pace("strava", 80)
    assert not harness.app.take_pace("strava", 10)
    assert used(harness) == used(harness, "1d") == 86
    assert harness.app.take_pace("strava", 9)
    assert not harness.app.take_pace("strava")
    assert used(harness) == 95
    # What was taken so keeps jobs out, too, until the window turns.
    waiting = sync.enqueue(6)
    assert harness.drain() % (15 * MINUTE) == 0
    assert waiting.refresh().state == "open"
    is_sound(harness)
    harness.advance("15m")
    assert waiting.refresh().state == "done"
    assert harness.app.take_pace("strava")


def test_nothing_is_taken_of_a_quota_that_is_blocked(
    harness: Harness, sync: Any, strava: Quota
) -> None:
    sync.enqueue(6)
    harness.drain()
    strava.blocked("1h")
    harness.app.block_pace("strava", "1h")

    assert not harness.app.take_pace("strava")


def test_only_a_declared_quota_is_taken_of_and_in_whole_numbers(
    harness: Harness, strava: Quota
) -> None:
    slow = Rate("5/1s", name="slow")

    @harness.app.task(pace=slow)
    def slowly() -> None: ...

    @harness.app.task(pace=strava)
    def synced() -> None: ...

    for name in ("slow", "nothing"):
        with pytest.raises(UsageError, match="is no quota that is declared here"):
            harness.app.take_pace(name)
    for units in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="what is taken is a whole number from 1 up"):
            harness.app.take_pace("strava", units)
