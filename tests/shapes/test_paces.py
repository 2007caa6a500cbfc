"""Paces as users see them: what starts when, on both databases, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from duework import (
    Adaptive,
    App,
    Fail,
    NotFound,
    Part,
    Quota,
    Rate,
    Run,
    Throttled,
    Tick,
    UsageError,
)
from duework.kernel.engine import EPOCH_BITS
from duework.testing import Harness
from tests.support.checks import is_sound

MINUTE = 60_000


class Log:
    """When what started, in milliseconds since the harness did."""

    def __init__(self, h: Harness) -> None:
        self.h = h
        self.start = h.now
        self.lines: list[tuple[int, Any]] = []

    def __call__(self, what: Any = None) -> None:
        self.lines.append((self.h.now - self.start, what))

    @property
    def times(self) -> list[int]:
        return [time for time, _ in self.lines]


@pytest.fixture
def log(harness: Harness) -> Log:
    return Log(harness)


def paced(h: Harness, log: Log, pace: Any, **options: Any) -> Any:
    @h.app.task(pace=pace, **options)
    async def call(number: int) -> None:
        log(number)

    return call


def test_a_rate_starts_its_jobs_evenly_and_in_order(harness: Harness, log: Log) -> None:
    call = paced(harness, log, Rate("20/1m"))
    call.enqueue_many([(number,) for number in range(5)])

    harness.advance("1m")

    assert log.lines == [(0, 0), (3000, 1), (6000, 2), (9000, 3), (12_000, 4)]
    is_sound(harness)


def test_jobs_that_come_late_find_no_more_than_a_burst(harness: Harness, log: Log) -> None:
    call = paced(harness, log, Rate("20/1m", burst=3))
    harness.advance("10m")
    call.enqueue_many([(number,) for number in range(5)])

    harness.advance("1m")

    assert [time - 10 * MINUTE for time in log.times] == [0, 0, 0, 3000, 6000]


def test_a_value_that_is_busy_holds_up_no_other(harness: Harness, log: Log) -> None:
    @harness.app.task(pace=Rate("5/2s", per="webhook"))
    async def post(webhook: str, text: str) -> None:
        log((webhook, text))

    post.enqueue_many([("busy", str(number)) for number in range(250)])
    post.enqueue_many([(f"quiet-{number}", "hello") for number in range(150)])

    harness.drain()
    first = list(log.lines)
    harness.advance("2m")

    assert len(first) == 151
    busy = [(time, what[1]) for time, what in log.lines if what[0] == "busy"]
    assert busy == [(400 * number, str(number)) for number in range(250)]
    is_sound(harness)


def test_a_job_that_failed_takes_its_turn_again(harness: Harness, log: Log) -> None:
    @harness.app.task(pace=Rate("1/1s", per="webhook"), retries=1, backoff=("10ms",))
    async def post(run: Run, webhook: str, number: int) -> None:
        log((number, run.attempt))
        if number < 2 and run.attempt == 1:
            raise ValueError("no")

    post.enqueue_many([("a", 0), ("a", 1), ("a", 2)])

    harness.advance("10s")

    assert [each for _, each in log.lines] == [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2)]
    assert log.times == [0, 1000, 2000, 3000, 4000]


def test_values_that_nobody_worked_on_for_a_while_do_not_start_all_at_once(
    harness: Harness, log: Log
) -> None:
    @harness.app.task(pace=Rate("1/1s", per="webhook"))
    async def post(webhook: str, number: int) -> None:
        log(number)

    post.enqueue_many([("a", number) for number in range(20)])
    harness.drain()
    harness.clock.move_to(harness.now + 60_000)

    harness.advance("1m")

    assert len(log.lines) == 20
    assert max(Counter(time // 1000 for time in log.times).values()) <= 2
    is_sound(harness)


def test_what_a_value_was_promised_is_kept_when_the_machine_boots_anew(
    harness: Harness, log: Log
) -> None:
    @harness.app.task(pace=Rate("1/4s", per="webhook"))
    async def post(webhook: str, number: int) -> None:
        log(number)

    post.enqueue_many([("a", number) for number in range(4)])
    harness.drain()
    harness.app.wiring.engine.floor = 1 << EPOCH_BITS

    harness.advance("1m")

    assert log.lines == [(4000 * number, number) for number in range(4)]
    is_sound(harness)


def test_a_slot_that_was_used_is_not_promised_again_when_the_machine_boots_anew(
    harness: Harness, log: Log
) -> None:
    @harness.app.task(pace=Rate("1/4s", per="webhook"), retries=1, backoff=("1s",))
    async def post(run: Run, webhook: str, number: int) -> None:
        log((number, run.attempt))
        if number == 1 and run.attempt == 1:
            raise ValueError

    post.enqueue_many([("a", 0), ("a", 1)])
    harness.advance("4s")
    harness.app.wiring.engine.floor = 1 << EPOCH_BITS

    harness.advance("1m")

    assert log.lines == [(0, (0, 1)), (4000, (1, 1)), (8000, (1, 2))]
    is_sound(harness)


def test_the_rows_of_quiet_values_are_pruned(harness: Harness, log: Log) -> None:
    @harness.app.task(pace=Rate("5/2s", per="webhook"))
    async def post(webhook: str | None = None) -> None:
        log()

    post.enqueue_many([(f"hook-{number}",) for number in range(30)])
    post.enqueue()
    post.enqueue_many([("long" * 200,)])
    harness.drain()
    assert len(harness.app.paces("post:rate[")) == 32

    harness.app.wiring.arm_housekeeping()
    harness.advance("61m")

    assert harness.app.paces("post:rate[") == []


def test_an_enqueue_does_not_start_a_tick_early(harness: Harness, log: Log) -> None:
    call = paced(harness, log, Tick(15, "10s"))
    call.enqueue_many([(number,) for number in range(20)])
    harness.drain()
    for number in range(20, 35):
        harness.advance("500ms")
        call.enqueue(number)

    harness.advance("1m")

    assert log.times == [0] * 15 + [10_000] * 15 + [20_000] * 5
    assert [number for _, number in log.lines] == list(range(35))


def test_what_comes_between_two_ticks_waits_for_the_next(harness: Harness, log: Log) -> None:
    call = paced(harness, log, Tick(15, "10s"))
    call.enqueue(1)
    harness.drain()
    harness.advance("3s")
    call.enqueue(2)

    harness.advance("1m")
    call.enqueue(3)
    harness.drain()

    assert log.times == [0, 10_000, 63_000]


def test_a_tick_that_finds_few_free_slots_goes_on_with_the_rest(url: str, log: Log) -> None:
    del url
    h = log.h
    object.__setattr__(h.app.limits, "async_slots", 4)
    call = paced(h, log, Tick(15, "10s"))
    call.enqueue_many([(number,) for number in range(20)])

    h.drain()

    assert log.times == [0] * 15


def test_what_would_start_after_its_window_is_handed_back_once(harness: Harness, log: Log) -> None:
    @harness.app.task(pace=Tick(2, "10s"))
    async def call(run: Run, number: int) -> None:
        log((number, run.job.fence))
        if number < 4:
            # As if the loop had been blocked.
            harness.clock.move_to(harness.now + 11_000)

    call.enqueue_many([(1,), (2,), (3,), (4,)])
    harness.drain()
    harness.advance("1m")

    # The second is too late for the first tick and the fourth for the next; both are claimed
    # again for the one after that, and the fourth starts then, too late as it is.
    assert log.lines == [(0, (1, 1)), (11_000, (3, 1)), (22_000, (2, 2)), (33_000, (4, 2))]
    is_sound(harness)


def test_all_paces_of_a_list_must_admit(harness: Harness, log: Log) -> None:
    call = paced(harness, log, [Tick(3, "10s"), Rate("5/1h", burst=5)])
    call.enqueue_many([(number,) for number in range(10)])

    harness.advance("3h")

    assert log.times[:5] == [0, 0, 0, 10_000, 10_000]
    assert all(time >= 700_000 for time in log.times[5:])
    assert len(log.times) == 10
    is_sound(harness)


def test_a_quota_is_shared_by_all_that_name_it(harness: Harness, log: Log) -> None:
    quota = Quota("strava", windows={"15m": 100, "1d": 1000}, reserve=5)

    @harness.app.task(pace=quota.cost(5))
    async def page(number: int) -> None:
        log("page")

    @harness.app.task(pace=quota, priority=5)
    async def one(number: int) -> None:
        log("one")

    harness.advance("7m")
    page.enqueue_many([(number,) for number in range(30)])
    one.enqueue_many([(number,) for number in range(10)])
    harness.advance("30m")

    first = Counter(what for time, what in log.lines if time == 7 * MINUTE)
    second = Counter(what for time, what in log.lines if time == 15 * MINUTE)
    assert first == {"one": 10, "page": 17}
    assert second == {"page": 13}
    assert harness.app.get_pace("strava").details["1d"]["used"] == 160


def test_a_quota_hears_what_the_upstream_says(harness: Harness, log: Log) -> None:
    quota = Quota("strava", windows={"15m": 100}, reserve=5)

    @harness.app.task(pace=quota)
    async def page(number: int) -> None:
        log(number)
        if number == 0:
            quota.saw(used=93, limit=100)

    page.enqueue(0)
    harness.drain()
    page.enqueue_many([(number,) for number in range(1, 5)])
    harness.advance("20m")

    assert log.times == [0, 0, 0, 15 * MINUTE, 15 * MINUTE]


def test_a_quota_can_be_told_where_nobody_works(harness: Harness, log: Log) -> None:
    quota = Quota("strava", windows={"15m": 100})
    page = paced(harness, log, quota)

    quota.blocked("90s")
    page.enqueue(1)
    harness.advance("5m")
    page.enqueue(2)
    harness.drain()

    assert log.times == [90_000, 300_000]
    quota.saw(used=100)
    page.enqueue(3)
    assert harness.drain() == harness.now - harness.now % 900_000 + 900_000
    quota.saw(limit=200)
    harness.drain()
    assert [number for _, number in log.lines] == [1, 2, 3]


@pytest.mark.parametrize("pace", [Rate("100/1s"), Tick(50, "1s"), Adaptive()], ids=str)
def test_being_throttled_blocks_the_pace(harness: Harness, log: Log, pace: Any) -> None:
    @harness.app.task(pace=pace)
    async def call(number: int) -> None:
        log(number)
        if len(log.lines) == 1:
            raise Throttled("2m")

    call.enqueue(0)
    harness.drain()
    call.enqueue_many([(number,) for number in range(1, 4)])
    harness.advance("1m")

    assert len(log.lines) == 1
    [status] = harness.app.paces()
    assert status.blocked_until == log.start + 2 * MINUTE
    harness.advance("5m")
    assert sorted(number for _, number in log.lines[1:]) == [0, 1, 2, 3]
    assert log.times[1] == 2 * MINUTE
    assert harness.app.jobs(task="call")[-1].failures == 0
    is_sound(harness)


def test_being_throttled_blocks_one_value_alone(harness: Harness, log: Log) -> None:
    @harness.app.task(pace=Rate("5/2s", per="webhook"))
    async def post(webhook: str, number: int) -> None:
        log((webhook, number))
        if webhook == "bad" and len(log.lines) < 3:
            raise Throttled("10s")

    post.enqueue_many([("bad", 0), ("good", 0), ("bad", 1), ("good", 1)])
    harness.advance("1m")

    assert [time for time, what in log.lines if what[0] == "good"] == [0, 400]
    assert [time for time, what in log.lines if what[0] == "bad"] == [0, 10_000, 10_400]


def test_a_task_without_a_pace_blocks_that_of_its_queue(harness: Harness, log: Log) -> None:
    harness.app.queue("mail", pace=Rate("10/1s"))

    @harness.app.task(queue="mail")
    async def send(number: int) -> None:
        log(number)
        if number == 0 and len(log.lines) == 1:
            raise Throttled("30s")

    send.enqueue(0)
    harness.drain()
    send.enqueue_many([(number,) for number in range(1, 4)])
    harness.advance("1m")

    assert log.times == [0, 30_000, 30_050, 30_150, 30_250]


def test_a_queue_has_one_pace_for_all_its_tasks(harness: Harness, log: Log) -> None:
    harness.app.queue("mail", pace=Tick(3, "10s"))

    @harness.app.task(queue="mail")
    async def one() -> None:
        log("one")

    @harness.app.task(queue="mail")
    def two() -> None:
        log("two")

    one.enqueue_many([()] * 4)
    two.enqueue_many([()] * 4)
    harness.advance("1m")

    assert sorted(log.times) == [0] * 3 + [10_000] * 3 + [20_000] * 2


def test_a_paced_queue_can_be_paused_and_resumed(harness: Harness, log: Log) -> None:
    call = paced(harness, log, Tick(2, "10s"))
    call.enqueue_many([(number,) for number in range(6)])
    harness.drain()

    harness.app.pause()
    harness.advance("1m")
    is_sound(harness)
    harness.app.resume()
    harness.advance("1m")

    assert log.times == [0, 0, 60_000, 60_000, 70_000, 70_000]
    is_sound(harness)


# --- adaptive


def enriching(h: Harness, log: Log, outcome: Callable[[int], object]) -> Any:
    @h.app.task(pace=Adaptive(name="enrich"))
    async def enrich(number: int) -> Any:
        log(number)
        return outcome(number)

    enrich.enqueue_many([(number,) for number in range(600)])
    return enrich


def test_an_adaptive_pace_grows_while_all_goes_well(harness: Harness, log: Log) -> None:
    enriching(harness, log, lambda _: None)

    harness.advance("4m")

    sizes = list(Counter(log.times).values())
    gaps = [b - a for a, b in zip(sorted(set(log.times)), sorted(set(log.times))[1:], strict=False)]
    assert sizes[:6] == [10, 13, 17, 22, 28, 35]
    assert gaps[:5] == [24_000, 19_200, 15_360, 12_288, 10_000]
    assert max(sizes) == 50
    assert min(gaps) == 10_000
    is_sound(harness)


def test_an_adaptive_pace_cools_down_and_wakes_exactly_then(harness: Harness, log: Log) -> None:
    enriching(harness, log, lambda n: (_ for _ in ()).throw(Throttled(0)) if n < 10 else None)

    harness.advance("6m")

    assert log.times[10] == 5 * MINUTE
    assert log.times.count(5 * MINUTE) == 2
    status = harness.app.get_pace("enrich")
    assert (status.details["current_batch_size"], status.details["in_cooldown"]) == (2, False)
    assert status.history[0][1:] == (2, 120_000, 0)


def test_what_is_permanently_wrong_slows_nothing_down(harness: Harness, log: Log) -> None:
    enriching(harness, log, lambda n: Fail("delisted") if n % 5 else None)

    harness.advance("10m")

    details = harness.app.get_pace("enrich").details
    assert details["success_rate"] == 100
    assert details["total_permanent"] > 4 * details["total_completed"] - 10
    assert details["current_batch_size"] == 50


def test_an_adaptive_pace_can_be_stopped_started_and_reset(harness: Harness, log: Log) -> None:
    enriching(harness, log, lambda _: None)
    harness.drain()

    harness.app.get_pace("enrich").stop()
    harness.advance("10m")
    assert len(log.lines) == 10
    assert harness.app.get_pace("enrich").details["running"] is False
    is_sound(harness)
    harness.app.get_pace("enrich").start()
    harness.drain()
    assert len(log.lines) == 23

    harness.app.get_pace("enrich").reset()
    harness.drain()

    assert len(log.lines) == 33
    assert harness.app.get_pace("enrich").details["total_dispatched"] == 10


def test_a_worker_that_crashed_leaves_a_pace_that_goes_on(harness: Harness, log: Log) -> None:
    enriching(harness, log, lambda _: None)
    harness.crash_worker(at=12)

    harness.advance("3m")

    assert len(set(log.times)) > 5
    is_sound(harness)


# --- operators


def test_a_pace_can_be_blocked_and_freed_by_hand(harness: Harness, log: Log) -> None:
    call = paced(harness, log, Rate("20/1m", name="apple"))
    harness.app.get_pace("apple").block("1h")
    call.enqueue_many([(1,), (2,)])
    harness.advance("30m")
    assert log.times == []
    assert harness.app.get_pace("apple").blocked_until == log.start + 60 * MINUTE

    harness.app.get_pace("apple").block(0)
    harness.advance("10s")

    assert log.times == [30 * MINUTE, 30 * MINUTE + 3000]
    with pytest.raises(NotFound):
        harness.app.get_pace("apples")
    with pytest.raises(NotFound):
        harness.app.block_pace("apples", "1h")
    with pytest.raises(UsageError, match="adaptive"):
        harness.app.get_pace("apple").stop()


def test_state_survives_the_process(harness: Harness, log: Log) -> None:
    call = paced(harness, log, Tick(3, "1h"))
    call.enqueue_many([(number,) for number in range(6)])
    harness.drain()
    harness.crash_worker()

    harness.advance("59m")
    assert len(log.times) == 3
    harness.advance("1m")

    assert log.times == [0] * 3 + [60 * MINUTE] * 3


# --- what is refused


def test_a_pace_that_two_share_needs_a_name() -> None:
    app, pace = App(), Rate("20/1m")

    @app.task(pace=pace)
    def one() -> None: ...

    with pytest.raises(UsageError, match="name="):

        @app.task(pace=pace)
        def two() -> None: ...

    @app.task(pace=Rate("20/1m", name="apple"))
    def three() -> None: ...

    @app.task(pace=Rate("20/1m", name="apple"))
    def four() -> None: ...

    with pytest.raises(UsageError, match="differ"):

        @app.task(pace=Rate("21/1m", name="apple"))
        def five() -> None: ...


def test_a_pace_per_what_is_no_argument_is_refused() -> None:
    app = App()

    with pytest.raises(UsageError, match="no argument 'webhook'"):

        @app.task(pace=Rate("5/2s", per="webhook"))
        def post(run: Run, hook: str) -> None: ...

    with pytest.raises(UsageError, match="a queue has no argument"):
        app.queue("mail", pace=Rate("5/2s", per="webhook"))
    with pytest.raises(UsageError, match="Rate, Tick, Quota or Adaptive"):

        @app.task(pace="5/2s")
        def send() -> None: ...


def test_a_part_brings_its_paces(harness: Harness, log: Log) -> None:
    part = Part("streaks")

    @part.task(pace=Tick(1, "10s"))
    async def check(number: int) -> None:
        log(number)

    harness.app.include(part)
    harness.app.include(part)
    check.enqueue_many([(1,), (2,)])
    harness.advance("1m")

    assert log.times == [0, 10_000]
    assert [pace.name for pace in harness.app.paces()] == ["streaks.check:tick"]


def test_what_a_quota_was_told_is_not_lost_with_a_write_that_failed(harness: Harness) -> None:
    quota = Quota("strava", windows={"15m": 100}, reserve=5)

    @harness.app.task(pace=quota)
    async def page() -> None: ...

    with harness.app.transaction(), pytest.raises(UsageError):
        quota.blocked("1m")
    quota.saw(used=3, limit=100)

    assert harness.app.get_pace("strava").blocked_until == harness.now + MINUTE
