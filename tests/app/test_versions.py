"""Two versions of a program on one database, as while a new one is rolled out or an old one is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from duework import (
    Accepted,
    App,
    Channel,
    End,
    Job,
    Next,
    Outbox,
    Page,
    Sent,
    Snooze,
    Throttled,
)
from duework.kernel.facts import Fact, JobSettled
from duework.observe.log import words
from duework.testing import Harness
from tests.support.harness import HarnessOn

MINUTE = 60_000
Version = Callable[[], Harness]


@pytest.fixture
def version(emptied: str) -> Iterator[Version]:
    """Each call is another program on the same database, at the same time."""
    made: list[Harness] = []
    with ExitStack() as stack:

        def another() -> Harness:
            new = HarnessOn(App("sqlite:///never-opened.db"), emptied)
            if made:
                new.clock = made[0].clock
            stack.enter_context(new)
            if made:
                new.app.wiring.engine.ids = made[0].app.wiring.engine.ids
            made.append(new)
            return new

        yield another


def outcomes(job: Job[Any]) -> list[str]:
    return [each.outcome for each in job.attempts()]


def charges(old: Harness, new: Harness, **options: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The same task in two versions, each with arguments that the other does not take."""

    @old.app.task(name="charge", **options)
    async def before(user: int, amount: int) -> int:
        return amount

    @new.app.task(name="charge", **options)
    async def after(user: int, amount: int, currency: str) -> int:
        return amount

    return {"old": (before, (7, 5)), "new": (after, (7, 5, "EUR"))}


@pytest.mark.parametrize("made_by", ["old", "new"])
@pytest.mark.parametrize("retries", [0, 5])
def test_arguments_of_another_version_wait_for_a_worker_of_that_version(
    version: Version, made_by: str, retries: int
) -> None:
    versions = {"old": version(), "new": version()}
    task, arguments = charges(**versions, retries=retries)[made_by]
    mine = versions.pop(made_by)
    [other] = versions.values()
    facts: list[Fact] = []
    other.app.on_fact(facts.append)
    begin = other.now

    job = task.enqueue(*arguments)
    other.drain()

    seen = job.refresh()
    assert (seen.phase, seen.failures, seen.due - begin) == ("waiting", 0, 5000)
    assert "do not fit this worker's version of the task" in str(seen.error)
    assert "`currency`" in str(seen.error)
    assert [(each.outcome, each.error) for each in job.attempts()] == [("misfit", seen.error)]
    [fact] = [each for each in facts if isinstance(each, JobSettled)]
    assert (fact.kind, fact.retry_at, fact.error) == ("misfit", seen.due, seen.error)
    assert f"charge {job.id} is left to other workers, again at" in words(fact).text

    mine.advance("5s")

    assert (job.refresh().state, job.refresh().result, job.refresh().error) == ("done", 5, None)
    assert outcomes(job) == ["misfit"]
    assert [each.name for each in mine.app.admin.verify() if each.violations] == []


def test_a_misfit_is_tried_for_an_hour_and_then_failed_by_a_sentence_that_names_it(
    version: Version,
) -> None:
    old, new = version(), version()
    task, arguments = charges(old, new)["old"]
    told: list[str] = []

    @new.app.wiring.registry.find("charge").reactions.append
    def after(tx: Any, job: Any, outcome: str) -> None:
        told.append(outcome)

    begin = new.now
    job = task.enqueue(*arguments)
    new.advance("55m")
    assert (job.refresh().state, told) == ("open", [])
    new.advance("10m")

    seen = job.refresh()
    assert (seen.state, seen.failures, told) == ("failed", 1, ["failed"])
    assert outcomes(job) == ["misfit"] * 12 + ["failed"]
    assert [(each.ended - begin) // 1000 for each in job.attempts()] == [
        *(0, 5, 15, 35, 75, 155, 315, 635, 1235, 1835, 2435, 3035, 3635)
    ]
    assert "missing required field `currency`" in str(seen.error)
    assert "no worker that it fits has taken it in 13 tries over an hour" in str(seen.error)
    assert [each.id for each in new.app.jobs(phase="failed")] == [job.id]

    assert new.app.revive(job.id) == "revived"
    new.advance("55m")

    assert job.refresh().state == "open", "what was revived is tried for an hour anew"
    old.advance("10m")
    assert job.refresh().state == "done"


def test_a_misfit_uses_up_no_retry(version: Version) -> None:
    old, new = version(), version()
    ran: list[int] = []

    @old.app.task(name="sync", retries=1, backoff="1s")
    async def before(user: int) -> None:
        ran.append(user)
        if len(ran) == 1:
            raise ValueError("no")

    @new.app.task(name="sync", retries=1, backoff="1s")
    async def after(user: str) -> None:
        raise AssertionError("it does not fit")

    job = before.enqueue(7)
    new.advance("5s")
    assert outcomes(job) == ["misfit", "misfit"]
    old.advance("20s")

    assert outcomes(job) == ["misfit", "misfit", "retry"]
    assert (job.refresh().state, ran) == ("done", [7, 7])


def test_a_job_that_runs_now_and_then_is_never_failed_as_a_misfit(version: Version) -> None:
    old, new = version(), version()
    ran: list[int] = []

    @old.app.task(name="watch")
    async def before(user: int) -> Snooze:
        ran.append(user)
        return Snooze("1m")

    @new.app.task(name="watch")
    async def after(user: str) -> None:
        raise AssertionError("it does not fit")

    job = before.enqueue(7)
    for _ in range(40):
        new.advance("1m")
        old.advance("1m")

    assert job.refresh().state == "open"
    assert outcomes(job).count("misfit") > 40
    assert len(ran) >= 40


def test_a_misfit_that_is_cancelled_is_cancelled(version: Version) -> None:
    old, new = version(), version()
    task, arguments = charges(old, new)["old"]

    job = task.enqueue(*arguments)
    new.drain()

    assert job.cancel() == "cancelled"
    new.advance("2h")
    assert (job.refresh().state, outcomes(job)) == ("cancelled", ["misfit"])


# --- messages


def test_a_message_of_another_version_is_submitted_by_a_worker_of_that_version(
    version: Version,
) -> None:
    old, new = version(), version()
    sent: list[Any] = []

    class Before(Outbox[int]):
        async def submit(self, message: int, key: str) -> Sent:
            sent.append(message)
            return Sent()

    class After(Outbox[str]):
        async def submit(self, message: str, key: str) -> Sent:
            raise AssertionError("it does not fit")

    mail = old.app.outbox("mail", Before())
    new.app.outbox("mail", After())
    message = mail.enqueue(7)
    new.advance("1m")

    seen = mail.get_message(message.id)
    assert (seen.state, seen.unsure_since) == ("queued", None)
    assert "does not fit this worker's version of the outbox" in str(seen.error)
    assert set(outcomes(old.app.job(seen.job))) == {"misfit"}

    old.advance("1m")

    assert (mail.get_message(message.id).state, sent) == ("sent", [7])


def test_a_message_that_fits_no_worker_for_an_hour_has_failed_and_was_not_sent(
    version: Version,
) -> None:
    old, new = version(), version()

    class Before(Outbox[int]):
        async def submit(self, message: int, key: str) -> Sent:
            raise AssertionError("the old version is gone")

    class After(Outbox[str]):
        async def submit(self, message: str, key: str) -> Sent:
            raise AssertionError("it does not fit")

    mail = old.app.outbox("mail", Before())
    new.app.outbox("mail", After())
    message = mail.enqueue(7)
    new.advance("2h")

    seen = mail.get_message(message.id)
    assert seen.state == "failed"
    assert "does not fit this worker's version of the outbox" in str(seen.error)
    assert "no worker that it fits has taken it" in str(seen.error)


# --- what a version does not declare


def reminders(
    h: Harness, sent: list[str], plans: dict[str, Any], *names: str, **options: Any
) -> Any:
    """A delivery to these channels; what is in `plans` is raised once."""

    def channel(name: str) -> Channel:
        async def send(n: int) -> None:
            if (error := plans.pop(name, None)) is not None:
                raise error
            sent.append(name)

        async def keyed(n: int, key: str) -> None:
            await send(n)

        return Channel(keyed if name == "push" else send)

    @h.app.delivery(channels={name: channel(name) for name in names}, name="reminder", **options)
    def reminder(n: int) -> dict[str, int]:
        return dict.fromkeys(names, n)

    return reminder


def states(reminder: Any, job: Any) -> dict[str, str]:
    return {each.channel: each.state for each in reminder.channels(job)}


def errors(reminder: Any, job: Any) -> dict[str, str | None]:
    return {each.channel: each.error for each in reminder.channels(job)}


RETRIED = {"partial": "retry-failed", "retries": 3, "backoff": "1m"}


@pytest.mark.parametrize("taken_out", ["sms", "push"])
def test_a_channel_taken_out_in_a_deploy_waits_for_a_version_that_has_it(
    version: Version, taken_out: str
) -> None:
    old, new = version(), version()
    sent: list[str] = []
    before = reminders(old, sent, {taken_out: ValueError("503")}, "email", taken_out, **RETRIED)
    after = reminders(new, sent, {}, "email", "chat", **RETRIED)

    job = before.enqueue(7)
    old.drain()
    assert states(before, job) == {"email": "sent", taken_out: "failed"}
    new.advance("6h")

    assert (job.refresh().state, job.refresh().failures) == ("open", 1)
    assert states(after, job) == {"email": "sent", taken_out: "sending"}
    why = f"it waits for a worker that knows the channel {taken_out}; this one does not"
    assert errors(after, job)[taken_out] == why
    assert new.app.unknown_tasks() == [f"reminder.{taken_out}"]
    assert sent == ["email"]

    old.advance("10m")

    assert (job.refresh().state, sent) == ("done", ["email", taken_out])
    assert errors(before, job) == {"email": None, taken_out: None}
    assert [each.name for each in new.app.admin.verify() if each.violations] == []


def test_a_channel_that_waits_when_it_is_taken_out_says_so_and_goes_on_waiting(
    version: Version,
) -> None:
    old, new = version(), version()
    sent: list[str] = []
    before = reminders(old, sent, {"sms": Throttled("30s")}, "email", "sms")
    after = reminders(new, sent, {}, "email")

    job = before.enqueue(7)
    old.drain()
    new.advance("3h")

    assert states(after, job) == {"email": "sent", "sms": "sending"}
    assert "knows the channel sms" in str(errors(after, job)["sms"])
    old.advance("10m")
    assert (job.refresh().state, sent) == ("done", ["email", "sms"])


@pytest.mark.parametrize("how", ["the job that sends", "the delivery", "deleted"])
def test_a_channel_that_no_version_will_send_can_be_given_up_by_hand(
    version: Version, how: str
) -> None:
    old, new = version(), version()
    sent: list[str] = []
    before = reminders(old, sent, {"sms": TimeoutError("lost")}, "email", "sms")
    after = reminders(new, sent, {}, "email")
    job = before.enqueue(7)
    old.drain()
    assert states(before, job)["sms"] == "unsure"
    new.app.deliveries.resend(job.id, "sms")
    new.advance("3h")
    assert states(after, job)["sms"] == "sending"
    [child] = new.app.jobs(task="reminder.sms")

    if how == "the job that sends":
        assert new.app.cancel(child.id, "taken out") == "cancelled"
        new.drain()
    elif how == "the delivery":
        assert new.app.cancel(job.id, "taken out") == "cancelled"
    else:
        with new.app.transaction() as tx:
            tx.write("delete from duework_job where id = :id", id=child.id)
            # As if it had been lost inside its send.
            tx.write("update duework_delivery set send_started = 1 where channel = 'sms'")
        new.advance("15m")

    expected = "unsure" if how == "deleted" else "failed"
    assert states(after, job) == {"email": "sent", "sms": expected}
    assert job.refresh().state == ("cancelled" if how == "the delivery" else "done")
    assert [each.name for each in new.app.admin.verify() if each.violations] == []


def test_a_channel_that_is_new_in_a_deploy_is_left_by_the_old_version_to_the_new_one(
    version: Version,
) -> None:
    old, new = version(), version()
    sent: list[str] = []
    before = reminders(old, sent, {}, "email", **RETRIED)
    after = reminders(new, sent, {"chat": ValueError("503")}, "email", "chat", **RETRIED)

    job = after.enqueue(7)
    new.drain()
    old.advance("1h")
    assert states(before, job) == {"chat": "sending", "email": "sent"}
    new.advance("10m")

    assert (job.refresh().state, sent) == ("done", ["email", "chat"])


def test_a_delivery_that_is_taken_out_waits_with_its_channels(version: Version) -> None:
    old, new = version(), version()
    sent: list[str] = []
    before = reminders(old, sent, {"sms": Throttled("30s")}, "email", "sms")

    job = before.enqueue(7)
    old.drain()
    new.advance("3h")

    assert job.refresh().state == "open"
    assert new.app.unknown_tasks() == ["reminder", "reminder.sms"]
    old.advance("1m")
    assert (job.refresh().state, sent) == ("done", ["email", "sms"])


def test_an_outbox_that_is_taken_out_keeps_its_messages_for_when_it_is_back(
    version: Version,
) -> None:
    old, new = version(), version()
    polls: list[str] = []

    class Mail(Outbox[str]):
        async def submit(self, message: str, key: str) -> Accepted:
            return Accepted(message)

        async def poll(self, handle: str, message: str) -> Sent:
            polls.append(handle)
            return Sent()

    mail = old.app.outbox("mail", Mail())
    accepted = mail.enqueue("accepted")
    old.drain()
    queued = mail.enqueue("queued")
    new.app.wiring.arm_housekeeping()
    new.advance("6h")

    assert [mail.get_message(each.id).state for each in (accepted, queued)] == ["sending", "queued"]
    assert new.app.unknown_tasks() == ["mail.poll", "mail.submit"]
    assert new.app.outboxes.counts("mail")["queued"] == 1
    old.advance("1m")
    assert [mail.get_message(each.id).state for each in (accepted, queued)] == ["sent", "sent"]
    assert polls == ["accepted", "queued"]


def test_a_scheduled_task_that_is_taken_out_is_fired_and_waits_until_it_is_back(
    version: Version,
) -> None:
    old, new = version(), version()
    ran: list[str] = []

    @old.app.task(every="1h")
    async def sweep() -> None:
        ran.append("sweep")

    @old.app.task(every="1h", idle=lambda run: False)
    async def checked() -> None:
        ran.append("checked")

    old.drain()
    new.advance("3h")

    assert ran == []
    assert [each.state for each in new.app.schedules()] == ["active", "active"]
    assert new.app.unknown_tasks() == ["duework.fire:checked", "sweep"]
    assert [each.phase for each in new.app.jobs(task="sweep")] == ["ready"]
    old.drain()
    assert sorted(ran) == ["checked", "sweep"]
    assert new.app.jobs(phase="failed") == []


def test_a_chain_that_is_taken_out_goes_on_where_it_was(version: Version) -> None:
    old, new = version(), version()
    cursors: list[Any] = []

    @old.app.chain(page_size=1)
    async def pages(page: Page) -> Next | End:
        cursors.append(page.cursor)
        if page.cursor is None:
            return Next(cursor=1, delay="1m")
        return End()

    chain = pages.start()
    old.drain()
    new.advance("3h")

    assert new.app.unknown_tasks() == ["pages"]
    old.drain()
    assert (old.app.get_chain(chain.id).state, cursors) == ("done", [None, 1])
