"""Deliveries: the body once, channels in parallel, only what failed again, unsure where unsure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from duework import (
    App,
    Cancel,
    Channel,
    Conflict,
    Fail,
    Job,
    NotFound,
    Part,
    Run,
    Snooze,
    Throttled,
    UsageError,
)
from duework.kernel.pruning import PRUNE_TASK
from duework.kernel.surroundings.leaving import Leaving
from duework.observe.log import report
from duework.shapes.deliveries.channels import Outgoing, Place, Senders
from duework.shapes.sends import Wanted
from duework.testing import Harness
from tests.support.checks import is_sound
from tests.support.receiver import Receiver, post


class Ledger:
    """Senders that do what they are told, and what they have sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any, str | None]] = []
        self.tries: list[tuple[str, str | None]] = []
        self.plans: dict[str, list[BaseException | None]] = {}

    def _play(self, name: str, payload: Any, key: str | None) -> None:
        self.tries.append((name, key))
        plan = self.plans.get(name) or [None]
        error = plan.pop(0) if len(plan) > 1 else plan[0]
        if error is not None:
            raise error
        self.sent.append((name, payload, key))

    def keyed(self, name: str, **more: Any) -> Channel:
        async def send(payload: Any, key: str) -> None:
            self._play(name, payload, key)

        return Channel(send, **more)

    def plain(self, name: str, **more: Any) -> Channel:
        def send(payload: Any) -> None:
            self._play(name, payload, None)

        return Channel(send, **more)

    def names(self) -> list[str]:
        return [name for name, _, _ in self.sent]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def declare(h: Harness, ledger: Ledger, bodies: list[int] | None = None, **more: Any) -> Any:
    channels = {"email": ledger.keyed("email"), "discord": ledger.plain("discord")}

    @h.app.delivery(**{"channels": channels, **more})
    def reminder(run: Run, user: int) -> dict[str, Any]:
        if bodies is not None:
            bodies.append(user)
        return {"email": {"to": user}, "discord": f"hi {user}"}

    return reminder


def states(reminder: Any, job: Job[Any]) -> dict[str, str]:
    return {each.channel: each.state for each in reminder.channels(job)}


def test_the_body_runs_once_and_each_channel_gets_its_payload(
    harness: Harness, ledger: Ledger
) -> None:
    bodies: list[int] = []
    reminder = declare(harness, ledger, bodies)

    job = reminder.enqueue(7)
    assert reminder.channels(job) == []
    harness.drain()

    assert bodies == [7]
    assert sorted(ledger.sent, key=str) == [
        ("discord", "hi 7", None),
        ("email", {"to": 7}, f"reminder:{job.id}:email"),
    ]
    done = job.refresh()
    assert (done.state, done.failures) == ("done", 0)
    assert done.result == {
        "outcome": "success",
        "sent": ["discord", "email"],
        "failed": {},
        "unsure": {},
    }
    assert states(reminder, job) == {"discord": "sent", "email": "sent"}
    assert reminder(None, 8) == {"email": {"to": 8}, "discord": "hi 8"}


def test_channels_are_sent_in_parallel(harness: Harness) -> None:
    here: dict[str, asyncio.Event] = {}

    def meeting(mine: str, other: str) -> Callable[..., Any]:
        async def send(payload: None) -> None:
            here.setdefault(mine, asyncio.Event()).set()
            await here.setdefault(other, asyncio.Event()).wait()

        return send

    channels = {"a": Channel(meeting("a", "b")), "b": Channel(meeting("b", "a"))}

    @harness.app.delivery(channels=channels)
    async def both() -> dict[str, None]:
        return {"a": None, "b": None}

    job = both.enqueue()
    harness.drain()

    assert job.refresh().result["outcome"] == "success"


def test_a_sender_with_several_arguments_takes_them_by_name(harness: Harness) -> None:
    seen: list[tuple[str, str, str]] = []

    async def post(webhook: str, text: str, key: str) -> None:
        seen.append((webhook, text, key))

    @harness.app.delivery(channels={"discord": Channel(post)})
    def say(text: str) -> dict[str, Any]:
        return {"discord": {"webhook": "w", "text": text}}

    job = say.enqueue("hi")
    harness.drain()

    assert seen == [("w", "hi", f"say:{job.id}:discord")]


# --- full and partial failure


def test_a_full_failure_is_retried_after_one_five_and_thirty_minutes_and_then_parked(
    harness: Harness, ledger: Ledger
) -> None:
    bodies: list[int] = []
    reminder = declare(harness, ledger, bodies)
    ledger.plans = {"email": [ValueError("no mailbox")], "discord": [ValueError("no channel")]}
    job = reminder.enqueue(7)
    times = []

    for minutes in (0, 1, 5, 30):
        harness.advance(f"{minutes}m")
        times.append(len(ledger.tries))
        assert job.refresh().failures == len(times)

    assert bodies == [7]
    assert times == [2, 4, 6, 8]
    dead = job.refresh()
    assert dead.state == "failed"
    assert dead.error == "discord: ValueError: no channel; email: ValueError: no mailbox"
    assert [each.id for each in harness.app.jobs(phase="failed")] == [job.id]
    assert {key for name, key in ledger.tries if name == "email"} == {f"reminder:{job.id}:email"}
    harness.advance("30d")
    assert len(ledger.tries) == 8


def test_a_partial_success_advances_with_the_failed_channel_on_record(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger)
    ledger.plans = {"discord": [ValueError("no channel")]}

    job = reminder.enqueue(7)
    harness.advance("1d")

    done = job.refresh()
    assert (done.state, done.failures) == ("done", 0)
    assert done.result["outcome"] == "partial"
    assert done.result["failed"] == {"discord": "ValueError: no channel"}
    assert ledger.names() == ["email"]
    assert len(ledger.tries) == 2
    assert states(reminder, job) == {"discord": "failed", "email": "sent"}
    ledger.plans = {}
    job.retry()
    harness.drain()
    assert ledger.names() == ["email", "discord"]
    assert job.refresh().result["outcome"] == "success"


def test_only_failed_channels_are_retried_and_a_sent_one_never_again(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger, partial="retry-failed")
    ledger.plans = {"discord": [ValueError("one"), ValueError("two"), None]}

    job = reminder.enqueue(7)
    harness.drain()
    assert job.refresh().failures == 1
    harness.advance("6m")

    assert ledger.names() == ["email", "discord"]
    assert [name for name, _ in ledger.tries].count("email") == 1
    assert job.refresh().result["outcome"] == "success"


def test_failed_channels_that_stay_so_park_the_delivery_and_a_revival_sends_only_them(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger, partial="retry-failed", retries=1, backoff="1m")
    ledger.plans = {"discord": [ValueError("no")]}
    job = reminder.enqueue(7)
    harness.advance("1h")
    assert job.refresh().state == "failed"
    ledger.plans = {}

    job.retry()
    harness.drain()

    assert job.refresh().result["outcome"] == "success"
    assert sorted(ledger.names()) == ["discord", "email"]


def test_a_body_that_fails_is_retried_since_nothing_was_sent(
    harness: Harness, ledger: Ledger
) -> None:
    @harness.app.delivery(channels={"email": ledger.keyed("email")})
    async def flaky(run: Run) -> dict[str, int]:
        if run.attempt == 1:
            raise ValueError("not yet")
        return {"email": 1}

    job = flaky.enqueue()
    harness.advance("1m")

    assert ledger.names() == ["email"]
    assert job.refresh().failures == 1


def test_a_body_may_cancel_or_put_off(harness: Harness, ledger: Ledger) -> None:
    @harness.app.delivery(channels={"email": ledger.keyed("email")})
    async def choosy(run: Run, wish: str) -> dict[str, int] | Cancel | Snooze:
        if wish == "cancel":
            return Cancel("not needed")
        return Snooze("1h") if run.now == run.job.at else {"email": 1}

    cancelled, late = choosy.enqueue("cancel"), choosy.enqueue("later")
    harness.drain()
    assert ledger.sent == []
    harness.advance("1h")

    assert cancelled.refresh().state == "cancelled"
    assert late.refresh().state == "done"
    assert ledger.names() == ["email"]


def test_an_empty_error_text_is_a_failure_too(harness: Harness, ledger: Ledger) -> None:
    reminder = declare(harness, ledger, retries=0)
    ledger.plans = {"email": [ValueError("")], "discord": [Fail("")]}

    job = reminder.enqueue(7)
    harness.drain()

    assert job.refresh().state == "failed"


def test_senders_that_give_up_end_the_delivery_at_once(harness: Harness, ledger: Ledger) -> None:
    reminder = declare(harness, ledger)
    ledger.plans = {"email": [Fail("no such user")], "discord": [Fail("no such channel")]}

    job = reminder.enqueue(7)
    harness.drain()

    dead = job.refresh()
    assert (dead.state, dead.failures) == ("failed", 1)
    assert dead.error == "discord: no such channel; email: no such user"
    ledger.plans = {}
    job.retry()
    harness.drain()
    assert job.refresh().state == "done"


def test_a_throttled_sender_is_put_off_and_nothing_is_unsure_about_it(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger)
    ledger.plans = {"discord": [Throttled("30s"), None], "email": [Throttled("20s"), None]}

    job = reminder.enqueue(7)
    harness.drain()
    assert [each.send_started for each in reminder.channels(job)] == [None, None]
    harness.advance("20s")
    assert ledger.names() == ["email"]
    harness.advance("10s")

    assert ledger.names() == ["email", "discord"]
    assert (job.refresh().state, job.refresh().failures) == ("done", 0)


# --- unsure


def test_a_timeout_cancels_the_send_and_without_a_key_it_is_unsure_and_left_alone(
    harness: Harness,
) -> None:
    began: list[int] = []
    stopped: list[int] = []

    async def slow(payload: int) -> None:
        began.append(payload)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(payload)
            raise

    @harness.app.delivery(channels={"slow": Channel(slow, timeout="50ms")})
    def one() -> dict[str, int]:
        return {"slow": 1}

    job = one.enqueue()
    harness.advance("1d")

    assert began == stopped == [1]
    assert job.refresh().result["outcome"] == "partial"
    [found] = one.channels(job)
    assert (found.state, found.sends) == ("unsure", 1)
    assert "timeout of 50ms" in (found.error or "")


def unsure(h: Harness, ledger: Ledger, **more: Any) -> tuple[Any, Job[Any]]:
    """A delivery whose e-mail has failed for good, and nobody can tell what became of the other."""
    ledger.plans = {"email": [Fail("no such user")], "discord": [TimeoutError("lost"), None]}
    reminder = declare(h, ledger, **more)
    job = reminder.enqueue(7)
    h.drain()
    assert states(reminder, job) == {"discord": "unsure", "email": "failed"}
    return reminder, job


def test_an_operator_sends_an_unsure_channel_again_and_nothing_else(
    harness: Harness, ledger: Ledger
) -> None:
    _, job = unsure(harness, ledger)
    desk = harness.app.deliveries
    assert [(found, each.channel) for found, each in desk.unsure()] == [(job.id, "discord")]

    desk.resend(job.id, "discord")
    assert job.refresh().state == "open"
    harness.advance("1d")

    assert sorted(name for name, _ in ledger.tries) == ["discord", "discord", "email"]
    assert job.refresh().result["sent"] == ["discord"]
    assert job.refresh().result["unsure"] == {}
    assert desk.unsure() == []
    is_sound(harness)


def test_an_operator_calls_an_unsure_channel_sent_and_it_is_never_sent_again(
    harness: Harness, ledger: Ledger
) -> None:
    _, job = unsure(harness, ledger)
    desk = harness.app.deliveries

    [discord, _] = desk.call_sent(job.id, "discord")

    assert (discord.state, discord.error) == ("sent", None)
    for verb in (desk.resend, desk.call_sent, desk.give_up):
        with pytest.raises(Conflict, match="is sent: only what is unsure"):
            verb(job.id, "discord")
    job.retry()
    harness.advance("1d")
    assert ledger.names() == []
    assert "discord" not in [name for name, _ in ledger.tries[2:]]


def test_a_channel_given_up_while_another_is_still_sent_stays_given_up(
    harness: Harness, ledger: Ledger
) -> None:
    ledger.plans = {"discord": [TimeoutError("lost"), None], "email": [TimeoutError("lost"), None]}
    reminder = declare(harness, ledger)
    job = reminder.enqueue(7)
    harness.drain()
    assert states(reminder, job) == {"discord": "unsure", "email": "sending"}

    harness.app.deliveries.give_up(job.id, "discord")
    harness.advance("1d")

    assert states(reminder, job) == {"discord": "failed", "email": "sent"}
    assert ledger.names() == ["email"]
    job.retry()
    harness.advance("1d")
    assert ledger.names() == ["email", "discord"]


def test_sending_an_unsure_channel_again_costs_another_one_no_retry(
    harness: Harness, ledger: Ledger
) -> None:
    ledger.plans = {"discord": [TimeoutError("lost"), None], "email": [ValueError("no"), None]}
    reminder = declare(harness, ledger, partial="retry-failed", retries=1)
    job = reminder.enqueue(7)
    harness.drain()
    assert states(reminder, job) == {"discord": "unsure", "email": "failed"}
    assert (job.refresh().state, job.refresh().failures) == ("open", 1)

    harness.app.deliveries.resend(job.id, "discord")
    harness.advance("1d")

    assert states(reminder, job) == {"discord": "sent", "email": "sent"}
    assert (job.refresh().state, job.refresh().failures) == ("done", 1)


def test_why_a_channel_was_given_up_may_be_any_text(harness: Harness, ledger: Ledger) -> None:
    _, job = unsure(harness, ledger)

    [discord, _] = harness.app.deliveries.give_up(job.id, "discord", "a\0b\ud800")

    assert discord.error == "a\\0b?"


def test_a_channel_that_was_given_up_is_sent_again_only_by_hand(
    harness: Harness, ledger: Ledger
) -> None:
    ledger.plans = {"discord": [TimeoutError("lost"), None]}
    reminder = declare(harness, ledger)
    job = reminder.enqueue(7)
    harness.drain()

    [discord, _] = harness.app.deliveries.give_up(job.id, "discord", "they moved")
    harness.advance("1d")

    assert (discord.state, discord.error, len(ledger.tries)) == ("failed", "they moved", 2)
    job.retry()
    harness.advance("1d")
    assert states(reminder, job) == {"discord": "sent", "email": "sent"}
    assert len(ledger.tries) == 3


def test_a_channel_that_is_not_there_cannot_be_decided(harness: Harness, ledger: Ledger) -> None:
    _, job = unsure(harness, ledger)
    desk = harness.app.deliveries

    with pytest.raises(NotFound, match="no channel 'fax'; it has: discord, email"):
        desk.resend(job.id, "fax")
    with pytest.raises(NotFound, match="there is no job 5"):
        desk.resend(5, "email")


def test_a_delivery_may_be_scheduled_from_inside_a_transaction(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger)

    with harness.app.transaction() as tx:
        tx.schedule(reminder, every="1h", args=(7,), key="hourly")
    harness.advance("61m")

    assert sorted(ledger.names()) == ["discord", "email"]


def test_after_a_timeout_a_channel_with_a_key_is_sent_again_with_the_same_one(
    harness: Harness,
) -> None:
    keys: list[str] = []

    async def slow(payload: int, key: str) -> None:
        keys.append(key)
        if len(keys) == 1:
            await asyncio.sleep(60)

    @harness.app.delivery(channels={"slow": Channel(slow, timeout="50ms")})
    def one() -> dict[str, int]:
        return {"slow": 1}

    job = one.enqueue()
    harness.advance("1m")

    assert keys == [f"one:{job.id}:slow"] * 2
    assert job.refresh().result["outcome"] == "success"
    assert job.refresh().failures == 0


def test_replies_that_stay_lost_end_as_a_failure_that_says_so(
    harness: Harness, ledger: Ledger
) -> None:
    channels = {"email": ledger.keyed("email")}
    ledger.plans = {"email": [ConnectionResetError("gone")]}

    @harness.app.delivery(channels=channels)
    def one() -> dict[str, int]:
        return {"email": 1}

    job = one.enqueue()
    harness.advance("1d")

    assert len(ledger.tries) == 4
    assert job.refresh().state == "failed"
    assert "nobody can tell whether it was sent" in (job.refresh().error or "")


@pytest.mark.parametrize(
    ("takes_key", "unsure", "delivered", "ends"),
    [
        (False, None, 1, "unsure"),
        (False, "skip", 1, "unsure"),
        (False, "resend", 2, "sent"),
        (True, None, 1, "sent"),
        (True, "skip", 1, "unsure"),
    ],
)
def test_a_lost_reply_is_at_most_one_delivery_unless_the_user_says_otherwise(
    harness: Harness, takes_key: bool, unsure: Any, delivered: int, ends: str
) -> None:
    with Receiver(keys=True) as there:

        def keyed(payload: Any, key: str) -> None:
            post(there.url, payload, key)

        def plain(payload: Any) -> None:
            post(there.url, payload)

        channel = Channel(keyed if takes_key else plain, unsure=unsure)

        @harness.app.delivery(channels={"hook": channel})
        def one() -> dict[str, Any]:
            return {"hook": {"text": "hi"}}

        there.then("drop")
        job = one.enqueue()
        harness.advance("1h")

    assert there.delivered == [{"text": "hi"}] * delivered
    assert states(one, job) == {"hook": ends}
    assert job.refresh().state == "done"


def test_a_refusal_is_no_lost_reply(harness: Harness) -> None:
    with Receiver() as there:

        def plain(payload: Any) -> None:
            post(there.url, payload)

        @harness.app.delivery(channels={"hook": Channel(plain)})
        def one() -> dict[str, Any]:
            return {"hook": 1}

        there.then(503, 503)
        job = one.enqueue()
        harness.advance("1h")

    assert there.delivered == [1]
    assert len(there.requests) == 3
    assert job.refresh().failures == 2


# --- refused


def test_a_declaration_without_channels_or_with_something_else_is_refused(
    harness: Harness, ledger: Ledger
) -> None:
    for wrong in (
        {"channels": {}},
        {"channels": {"email": print}},
        {"channels": {"no spaces": ledger.keyed("x")}},
        {"channels": {"email": ledger.keyed("x")}, "partial": "maybe"},
        {"channels": {"email": ledger.keyed("x")}, "isolation": "thread"},
        {"channels": {"email": ledger.keyed("x")}, "unheard_of": 1},
    ):
        with pytest.raises(UsageError):
            declare(harness, ledger, **wrong)
    for more in ({"unsure": "perhaps"}, {"timeout": "soon"}, {"send": 3}):
        with pytest.raises(UsageError):
            Channel(**{"send": print, **more})  # type: ignore[arg-type]

    async def wants_run(run: Run, payload: int) -> None: ...

    with pytest.raises(UsageError, match="not a Run"):
        declare(harness, ledger, channels={"email": Channel(wants_run)})


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ("email", "payloads by channel, or None, not 'email'"),
        (0, "payloads by channel, or None, not 0"),
        ({"email": 1, "fax": 2}, "no channel fax; there are: email, sms"),
        ({"email": 1, "sms": "not a number"}, "Expected `int`"),
    ],
)
def test_a_choice_that_cannot_be_sent_fails_at_once_and_nothing_is_sent(
    harness: Harness, ledger: Ledger, chosen: Any, says: str
) -> None:
    async def sms(number: int) -> None:
        ledger.sent.append(("sms", number, None))

    channels = {"email": ledger.keyed("email"), "sms": Channel(sms)}
    with harness.app.transaction() as tx:
        tx.write("create table note (what text)")

    @harness.app.delivery(channels=channels)
    def one(run: Run) -> Any:
        run.write("insert into note (what) values ('chosen')")
        return chosen

    job = one.enqueue()
    harness.advance("1h")

    assert job.refresh().state == "failed"
    assert says in (job.refresh().error or "")
    assert ledger.sent == []
    assert harness.app.read("select what from note") == []
    with pytest.raises(UsageError, match="when_running"):
        one.using(key="k", when_running="again")


# --- from outside


def test_a_cancelled_delivery_sends_no_more(harness: Harness, ledger: Ledger) -> None:
    reminder = declare(harness, ledger)
    ledger.plans = {"discord": [Throttled("1h"), None]}
    job = reminder.enqueue(7)
    harness.drain()

    assert job.cancel("enough") == "cancelled"
    harness.advance("1d")

    assert ledger.names() == ["email"]
    assert states(reminder, job) == {"discord": "failed", "email": "sent"}
    assert harness.app.jobs(phase="waiting") == []


def test_a_channel_that_ended_unseen_is_found_within_ten_minutes(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger)
    ledger.plans = {"discord": [Throttled("1h"), None]}
    job = reminder.enqueue(7)
    harness.drain()
    with harness.app.transaction() as tx:
        tx.write("delete from duework_job where task = 'reminder.discord'")

    harness.advance("11m")

    assert job.refresh().result["outcome"] == "partial"
    assert "ended unseen" in job.refresh().result["failed"]["discord"]


def test_a_delivery_that_waits_for_a_slow_channel_goes_on_waiting(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger)
    ledger.plans = {"discord": [Throttled("1h"), None]}
    job = reminder.enqueue(7)

    harness.advance("59m")
    assert job.refresh().state == "open"
    # At the full hour it looks for itself, too, and may be held when the channel settles.
    harness.advance("1m 1s")

    assert job.refresh().result["outcome"] == "success"


def test_what_was_sent_in_time_is_done_however_late_it_is_judged(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger)
    ledger.plans = {"discord": [Throttled("50s"), None], "email": [ValueError("no"), None]}

    job = reminder.using(expires="40s").enqueue(7)
    harness.drain()
    harness.advance("1h")

    found = {each.channel: each for each in reminder.channels(job)}
    assert job.refresh().state == "failed"
    assert "expired" in (found["discord"].error or "")
    assert ledger.sent == []


def test_a_delivery_of_a_part_works_under_its_name(harness: Harness, ledger: Ledger) -> None:
    part = Part("streaks")

    @part.delivery(channels={"email": ledger.keyed("email")}, queue="mail")
    def nudge(user: int) -> dict[str, int]:
        return {"email": user}

    with pytest.raises(UsageError, match="no App has included"):
        nudge.enqueue(7)
    harness.app.include(part)
    job = nudge.using(priority=3).enqueue(7)
    harness.drain()

    assert nudge.name == "streaks.nudge"
    assert ledger.sent == [("email", 7, f"streaks.nudge:{job.id}:email")]


def test_channels_are_deleted_with_their_delivery_and_not_before(
    harness: Harness, ledger: Ledger
) -> None:
    reminder = declare(harness, ledger)
    jobs = [reminder.enqueue(user) for user in range(3)]
    harness.drain()
    prune = harness.app.wiring.registry.find(PRUNE_TASK).function

    def left() -> int:
        return int(harness.app.read("select count(*) as n from duework_delivery")[0].n)

    harness.advance("6d")
    prune()
    assert left() == 6
    harness.app.purge([jobs[0].id])
    harness.advance("2d")
    prune()

    assert left() == 0


def test_two_deliveries_of_one_app_do_not_mix_up_on_a_real_clock(url: str) -> None:
    ledger, app = Ledger(), App(url)

    @app.delivery(channels={"email": ledger.keyed("email")})
    def one() -> dict[str, int]:
        return {"email": 1}

    @app.delivery(channels={"email": ledger.keyed("other")})
    def two() -> dict[str, int]:
        return {"email": 2}

    async def work() -> None:
        async with app.running():
            for job in (one.enqueue(), two.enqueue()):
                await job.await_(timeout="10s")

    asyncio.run(work())
    app.close()
    assert sorted(ledger.names()) == ["email", "other"]


# --- races


def waiting(h: Harness, ledger: Ledger) -> tuple[Any, Any, dict[str, int]]:
    """A delivery of which both channels wait to be sent."""
    reminder = declare(h, ledger)
    ledger.plans = {"discord": [Throttled("1h")], "email": [Throttled("1h")]}
    job = reminder.enqueue(7)
    h.drain()
    return reminder, job, {each.channel: each.child for each in reminder.channels(job)}


def test_of_two_channels_that_settle_at_the_same_time_the_second_wakes_the_delivery(
    harness: Harness, ledger: Ledger
) -> None:
    _, job, children = waiting(harness, ledger)
    engine = harness.app.wiring.engine

    def end(channel: str) -> None:
        with engine.database.transaction() as tx:
            engine.cancel(tx, [(children[channel], "enough")])

    other = threading.Thread(target=end, args=("email",))
    with engine.database.transaction() as tx:
        engine.cancel(tx, [(children["discord"], "enough")])
        other.start()
        # It cannot get through before this one has committed.
        other.join(0.2)
    other.join()

    assert job.refresh().due == harness.now
    harness.drain()
    assert job.refresh().state == "failed"


def test_a_send_begins_only_under_the_fence_of_the_present_lease(
    harness: Harness, ledger: Ledger
) -> None:
    reminder, job, children = waiting(harness, ledger)
    silent = Channel(lambda text: None, unsure="skip")
    senders = Senders({"email": silent}, lambda: harness.app.wiring.engine)
    with harness.app.transaction() as tx:
        tx.write(
            "update duework_job set worker = 1, fence = 5 where id = :id", id=children["email"]
        )
    place = Place(job.id, "email", children["email"])

    def begin(fence: int) -> Any:
        leaving = Leaving(lambda _: None)
        wanted = Wanted(Outgoing(place, (), {}), place.child, fence, leaving)
        return harness.app.wiring.engine.writer.call(senders.begin, [wanted])[0]

    assert begin(4) == "lost"
    assert {each.send_started for each in reminder.channels(job)} == {None}
    begun = begin(5)
    assert (begun.key, begun.number) == (f"{job.task}:{job.id}:email", 2)
    assert begin(5) == "unsure"


def test_a_delivery_that_is_being_looked_at_when_its_last_channel_settles_is_woken_a_little_later(
    harness: Harness, ledger: Ledger
) -> None:
    _, job, children = waiting(harness, ledger)
    hold = "update duework_job set worker = :worker, due = :due where id = :id"
    before = job.refresh().due
    with harness.app.transaction() as tx:
        tx.write(hold, worker=1, due=harness.now + 15_000, id=job.id)
    for child in children.values():
        harness.app.cancel(child)
    with harness.app.transaction() as tx:
        tx.write(hold, worker=None, due=before, id=job.id)

    harness.advance("2s")

    assert job.refresh().state == "failed"
    assert ledger.sent == []


def test_a_channel_that_is_sent_again_is_not_logged_as_failed_for_good(
    harness: Harness, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    channels = {"email": ledger.plain("email")}
    reminder = declare_one(harness, channels, retries=1, backoff="1m")
    ledger.plans["email"] = [RuntimeError("503"), RuntimeError("504")]

    reminder.enqueue(7)
    harness.drain()
    first = [(each.levelname, each.getMessage()) for each in caplog.records]
    harness.advance("1m")

    assert not [text for _, text in first if "for good" in text]
    [(level, text)] = [each for each in first if "reminder.email" in each[1]]
    assert level == "WARNING"
    assert text.endswith("its delivery decides what comes next: RuntimeError: 503")
    errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(errors) == 1
    assert errors[0].startswith("reminder ")
    assert "for good" in errors[0]


def test_the_log_shows_where_a_channel_failed(
    harness: Harness, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    reminder = declare_one(harness, {"email": ledger.plain("email")}, retries=0)
    ledger.plans["email"] = [RuntimeError("503")]

    reminder.enqueue(7)
    harness.drain()

    [line] = [each for each in caplog.records if "reminder.email" in each.getMessage()]
    assert line.exc_info is not None
    assert line.exc_info[0] is RuntimeError
    assert "in _play" in (line.exc_text or "")


def declare_one(h: Harness, channels: dict[str, Channel], **more: Any) -> Any:
    # As every worker does.
    h.app.on_fact(report)

    @h.app.delivery(channels=channels, partial="retry-failed", **more)
    def reminder(run: Run, user: int) -> dict[str, Any]:
        return {"email": user}

    return reminder
