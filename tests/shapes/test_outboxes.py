"""Outboxes: every message is submitted, asked about and accounted for; none is sent twice unasked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from duework import (
    Accepted,
    Conflict,
    Fail,
    InvalidArguments,
    NotFound,
    Outbox,
    Part,
    Pending,
    Rejected,
    Run,
    Sent,
    Throttled,
    Tick,
    UsageError,
)
from duework.kernel.facts import MessageMoved
from duework.kernel.pruning import PRUNE_TASK
from duework.kernel.surroundings.leaving import Leaving
from duework.shapes.outboxes.runner import OutboxRunner
from duework.shapes.sends import Wanted
from duework.testing import Harness
from tests.support.receiver import Receiver, post


@dataclass
class Message:
    to: str
    text: str = ""


class Upstream(Outbox[Message]):
    """Says what it is told to say; each list is played in order, its last entry for ever."""

    backoff = "10s"
    retries = 3

    def __init__(self, submit: Any = (), poll: Any = (), **more: Any) -> None:
        self.submit_plan, self.poll_plan = list(submit), list(poll)
        self.submits: list[tuple[str, str]] = []
        self.polls: list[str] = []
        for name, value in more.items():
            setattr(self, name, value)

    async def submit(self, message: Message, key: str) -> Any:
        self.submits.append((message.to, key))
        return _play(self.submit_plan, Accepted(f"op-{len(self.submits)}"))

    async def poll(self, handle: str, message: Message) -> Any:
        self.polls.append(message.to)
        return _play(self.poll_plan, Sent())


def _play(plan: list[Any], default: Any) -> Any:
    step = default if not plan else plan.pop(0) if len(plan) > 1 else plan[0]
    if isinstance(step, BaseException):
        raise step
    return step


ADA = Message("ada", "hi")


def states(h: Harness, mail: Any, *rows: Any) -> list[str]:
    return [mail.get_message(row.id).state for row in rows]


def test_a_message_is_submitted_then_polled_until_it_is_sent(harness: Harness) -> None:
    there = Upstream(poll=[Pending(), Pending("1m"), Sent()])
    mail = harness.app.outbox("email", there)
    seen: list[str] = []
    harness.app.on_fact(lambda f: seen.append(f.state) if isinstance(f, MessageMoved) else None)

    row = mail.enqueue(ADA)
    assert (row.state, row.message, row.key) == (
        "queued",
        {"to": "ada", "text": "hi"},
        f"email:{row.id}",
    )
    harness.drain()
    assert (mail.get_message(row.id).state, mail.get_message(row.id).handle) == ("sending", "op-1")
    assert there.polls == []
    harness.advance("20s")
    assert len(there.polls) == 2
    harness.advance("60s")

    sent = mail.get_message(row.id)
    assert (sent.state, sent.submits, sent.error) == ("sent", 1, None)
    assert (sent.accepted, sent.settled) == (row.created, row.created + 80_000)
    assert there.submits == [("ada", row.key)]
    assert seen == ["queued", "sending", "sent"]
    # Nothing is left that would wake anybody.
    assert harness.app.jobs() == []


def test_no_job_is_held_between_submit_and_poll(harness: Harness) -> None:
    mail = harness.app.outbox("email", Upstream(poll=[Pending()]))
    mail.enqueue_many([ADA] * 5)

    harness.advance("1m")

    assert harness.app.read("select id from duework_job where worker is not null") == []
    assert mail.counts()["sending"] == 5


def test_the_other_side_may_say_at_once_that_it_was_sent_or_never_will_be(
    harness: Harness,
) -> None:
    good = harness.app.outbox("good", Upstream(submit=[Sent()]))
    bad = harness.app.outbox("bad", Upstream(submit=[Rejected("no such mailbox")]))
    worse = harness.app.outbox("worse", Upstream(poll=[Rejected()]))

    rows = [box.enqueue(ADA) for box in (good, bad, worse)]
    harness.advance("10s")

    assert [good.get_message(row.id).state for row in rows] == ["sent", "failed", "failed"]
    assert [good.get_message(row.id).error for row in rows] == [
        None,
        "no such mailbox",
        "delivery failed",
    ]


def test_plain_functions_work_as_well(harness: Harness) -> None:
    class Plain(Outbox[str]):
        def submit(self, message: str, key: str) -> Accepted:  # type: ignore[override]
            return Accepted(key)

        def poll(self, handle: str, message: str) -> Sent:  # type: ignore[override]
            return Sent()

    mail = harness.app.outbox("plain", Plain())
    row = mail.enqueue("hi")
    harness.advance("10s")

    assert mail.get_message(row.id).state == "sent"


# --- errors


def test_an_error_drops_nothing_and_a_bad_message_does_not_hold_up_the_others(
    harness: Harness,
) -> None:
    there = Upstream()
    mail = harness.app.outbox("email", there)
    there.submit_plan = [ValueError("busy"), Sent()]

    first, second = mail.enqueue_many([Message("first"), Message("second")])
    harness.drain()

    waiting = mail.get_message(first.id)
    assert (waiting.state, waiting.unsure_since) == ("queued", None)
    assert (waiting.error or "").startswith("ValueError: busy")
    assert mail.get_message(second.id).state == "sent"
    harness.advance("10s")
    assert mail.get_message(first.id).state == "sent"


def test_a_message_that_stays_bad_fails_with_its_error_after_its_retries(
    harness: Harness,
) -> None:
    there = Upstream(submit=[ValueError("400")])
    mail = harness.app.outbox("email", there)
    row = mail.enqueue(ADA)

    harness.advance("1h")

    failed = mail.get_message(row.id)
    assert (failed.state, failed.submits) == ("failed", 4)
    assert (failed.error or "").startswith("ValueError: 400")
    assert harness.app.jobs() == []


@pytest.mark.parametrize("error", [Fail("bad address"), KeyError("bad address")])
def test_a_permanent_error_fails_a_message_at_once(harness: Harness, error: Exception) -> None:
    there = Upstream(submit=[error], give_up_on=(KeyError,))
    mail = harness.app.outbox("email", there)
    row = mail.enqueue(ADA)

    harness.advance("1h")

    assert (mail.get_message(row.id).state, len(there.submits)) == ("failed", 1)
    assert "bad address" in (mail.get_message(row.id).error or "")


def test_one_bad_poll_stops_nothing(harness: Harness) -> None:
    there = Upstream(poll=[ValueError("502"), None, Sent()])
    mail = harness.app.outbox("email", there)
    rows = mail.enqueue_many([Message("a"), Message("b"), Message("c")])

    harness.advance("10s")
    noted = {row.state: row for row in map(mail.get_message, [row.id for row in rows])}
    assert "poll returns" in (noted["sending"].error or "")
    assert noted["sending"].errors == 1
    harness.advance("1m")

    assert states(harness, mail, *rows) == ["sent"] * 3
    assert len(there.submits) == 3


def test_polls_go_round_in_the_order_of_the_least_recently_polled(harness: Harness) -> None:
    there = Upstream(poll=[Pending()])
    mail = harness.app.outbox("email", there)
    names = [f"m{number}" for number in range(5)]
    for name in names:
        mail.enqueue(Message(name))
        harness.advance("1s")

    harness.advance("31s")

    assert there.polls == names * 3


def test_a_message_that_runs_for_ever_is_unsure_in_the_end(harness: Harness) -> None:
    there = Upstream(poll=[Pending("1h")], running_limit="6h")
    mail = harness.app.outbox("email", there)
    row = mail.enqueue(ADA)

    harness.advance("7h")

    assert mail.get_message(row.id).state == "unsure"
    assert "in 6h" in (mail.get_message(row.id).error or "")
    assert harness.app.jobs() == []


def test_polls_that_all_run_into_their_timeout_end_by_age(harness: Harness) -> None:
    class Slow(Upstream):
        async def poll(self, handle: str, message: Message) -> Any:
            self.polls.append(handle)
            await asyncio.sleep(60)

    there = Slow(timeout="20ms", running_limit="35s")
    mail = harness.app.outbox("email", there)
    row = mail.enqueue(ADA)

    harness.advance("2m")

    assert mail.get_message(row.id).state == "unsure"
    assert len(there.polls) == 3


def test_being_told_to_slow_down_slows_the_whole_outbox_and_no_other(harness: Harness) -> None:
    there = Upstream(submit=[Throttled("5m"), Sent()])
    other = Upstream(submit=[Sent()])
    mail, sms = harness.app.outbox("email", there), harness.app.outbox("sms", other)
    first = mail.enqueue(ADA)
    harness.drain()

    second, elsewhere = mail.enqueue(ADA), sms.enqueue(ADA)
    harness.advance("299s")
    assert states(harness, mail, first, second, elsewhere) == ["queued", "queued", "sent"]
    assert len(there.submits) == 1
    harness.advance("1s")

    assert states(harness, mail, first, second) == ["sent", "sent"]
    assert mail.get_message(first.id).submits == 2


def test_a_throttled_poll_slows_submits_too(harness: Harness) -> None:
    there = Upstream(poll=[Throttled("5m"), Sent()])
    mail = harness.app.outbox("email", there)
    first = mail.enqueue(ADA)
    harness.advance("10s")

    mail.enqueue(ADA)
    harness.advance("4m")
    assert len(there.submits) == 1
    harness.advance("2m")

    assert len(there.submits) == 2
    assert mail.get_message(first.id).state == "sent"


# --- keys


def test_a_key_admits_one_message_and_another_body_is_refused(harness: Harness) -> None:
    there = Upstream()
    mail = harness.app.outbox("email", there)

    first = mail.using(key="order-7").enqueue(ADA)
    again = mail.using(key="order-7").enqueue(ADA)
    with pytest.raises(Conflict, match="another body"):
        mail.using(key="order-7").enqueue(Message("bob"))
    harness.advance("1m")

    assert (first.existed, again.existed, again.id) == (False, True, first.id)
    assert there.submits == [("ada", "order-7")]
    assert mail.using(key="order-7").enqueue(ADA).state == "sent"
    assert harness.app.outbox("sms", Upstream()).using(key="order-7").enqueue(ADA).existed is False


@pytest.mark.parametrize(("remembers", "ends", "sends"), [(None, "unsure", 1), ("1h", "sent", 2)])
def test_a_lost_reply_is_one_effect_and_unsure_only_without_a_memory_of_keys(
    harness: Harness, remembers: Any, ends: str, sends: int
) -> None:
    class Hook(Outbox[Message]):
        backoff = "10s"
        remembers_keys = remembers

        def submit(self, message: Message, key: str) -> Sent:  # type: ignore[override]
            post(there.url, message.to, key)
            return Sent()

    with Receiver(keys=True) as there:
        there.then("drop")
        mail = harness.app.outbox("hook", Hook())
        row = mail.enqueue(ADA)
        harness.advance("1m")

    assert there.delivered == ["ada"]
    assert there.requests == [row.key] * sends
    assert mail.get_message(row.id).state == ends


def test_submits_stop_before_the_other_side_forgets_the_key(harness: Harness) -> None:
    there = Upstream(
        submit=[TimeoutError("no answer")], remembers_keys="1h", retries=50, backoff="10m"
    )
    mail = harness.app.outbox("email", there)
    row = mail.enqueue(ADA)

    harness.advance("1d")

    assert len(there.submits) == 6
    assert mail.get_message(row.id).state == "unsure"


def test_a_refusal_after_a_lost_reply_does_not_make_it_sure(harness: Harness) -> None:
    there = Upstream(
        submit=[TimeoutError("no answer"), ValueError("503")], remembers_keys="1h", retries=2
    )
    mail = harness.app.outbox("email", there)
    row = mail.enqueue(ADA)

    harness.advance("30m")

    assert len(there.submits) == 3
    assert mail.get_message(row.id).state == "unsure"


def test_an_operator_decides_what_became_of_an_unsure_message(harness: Harness) -> None:
    there = Upstream(submit=[Accepted("")])
    mail = harness.app.outbox("email", there)
    rows = [mail.using(key=f"k{n}").enqueue(ADA) for n in range(2)]
    harness.advance("1h")

    arrived, gone = mail.call_sent(rows[0].id), mail.give_up(rows[1].id, "they moved\0")

    assert (arrived.state, arrived.error) == ("sent", None)
    assert (gone.state, gone.error) == ("failed", "they moved\\0")
    for verb in (mail.call_sent, mail.give_up):
        with pytest.raises(Conflict, match="is sent: only what is unsure"):
            verb(rows[0].id)
    harness.advance("8d")
    mail.operator.prune()
    with pytest.raises(NotFound):
        mail.get_message(rows[0].id)
    assert mail.get_message(rows[1].id).state == "failed"
    assert len(there.submits) == 2


def test_an_answer_that_is_none_leaves_it_unsure(harness: Harness) -> None:
    there = Upstream(submit=[Accepted("")])
    mail = harness.app.outbox("email", there)
    row = mail.enqueue(ADA)

    harness.advance("1h")

    assert (mail.get_message(row.id).state, len(there.submits)) == ("unsure", 1)


# --- by hand


def test_a_queued_message_can_be_cancelled_and_a_sending_one_cannot(harness: Harness) -> None:
    there = Upstream(poll=[Pending("1h")])
    mail = harness.app.outbox("email", there)
    later = mail.using(delay="1h").enqueue(ADA)
    under_way = mail.enqueue(ADA)
    harness.drain()

    assert mail.cancel(later.id) == "cancelled"
    assert mail.cancel(later.id) == "cancelled"
    with pytest.raises(Conflict, match="other side"):
        mail.cancel(under_way.id)
    with pytest.raises(NotFound):
        mail.cancel(999)
    harness.advance("2h")

    assert len(there.submits) == 1


def test_failed_messages_are_retried_singly_and_in_bulk(harness: Harness) -> None:
    there = Upstream(submit=[Fail("no")])
    mail = harness.app.outbox("email", there)
    rows = mail.enqueue_many([ADA] * 3)
    harness.drain()
    there.submit_plan = [Sent()]

    assert mail.retry(rows[0].id).state == "queued"
    assert mail.retry_failed() == 2
    harness.drain()

    assert mail.counts() == dict.fromkeys(mail.counts(), 0) | {"sent": 3}
    with pytest.raises(Conflict, match="nothing to retry"):
        mail.retry(rows[0].id)
    # Nothing was taken before, so the key is the same.
    assert [key for _, key in there.submits[:3]] == sorted(key for _, key in there.submits[3:])


def test_a_retry_after_a_rejection_has_another_key(harness: Harness) -> None:
    there = Upstream(poll=[Rejected("bounced"), Sent()])
    mail = harness.app.outbox("email", there)
    row = mail.using(key="k").enqueue(ADA)
    harness.advance("10s")

    mail.retry(row.id)
    harness.advance("10s")

    found = mail.get_message(row.id)
    assert [key for _, key in there.submits] == found.sent_keys == ["k", "k:-1"]
    assert found.state == "sent"


class Remembering(Upstream):
    """Takes each key once, as a provider does; what it took of `rejected` it gives up the first time."""

    def __init__(self, *rejected: str) -> None:
        super().__init__()
        self.rejected = list(rejected)
        self.taken: dict[str, Message] = {}
        self.lost = 0

    remembers_keys = "1d"

    async def submit(self, message: Message, key: str) -> Any:
        self.submits.append((message.to, key))
        self.taken.setdefault(key, message)
        if self.lost:
            self.lost -= 1
            raise ConnectionResetError
        return Accepted(key)

    async def poll(self, handle: str, message: Message) -> Any:
        if message.to in self.rejected:
            self.rejected.remove(message.to)
            return Rejected("bounced")
        return Sent()

    def arrived(self) -> list[str]:
        return sorted(each.to for each in self.taken.values())


def test_no_key_of_the_users_is_that_of_another_message_that_was_begun_anew(
    harness: Harness,
) -> None:
    keys = ["k", "k:1", "k:2", "k:-1", "k:-2", "k:-1:-1", "k:-0"]
    there = Remembering(*keys, *keys)
    mail = harness.app.outbox("email", there)
    rows = [mail.using(key=key).enqueue(Message(key)) for key in keys]
    for _ in range(2):
        harness.advance("1m")
        assert mail.retry_failed() == len(keys)
    harness.advance("1m")

    assert states(harness, mail, *rows) == ["sent"] * len(keys)
    # Three rounds of each: nothing was taken for what another message had sent.
    assert there.arrived() == sorted(keys * 3)
    known = [key for row in rows for key in mail.get_message(row.id).sent_keys]
    assert sorted(known) == sorted(there.taken)


def test_a_round_of_a_version_that_counted_upward_keeps_its_key(harness: Harness) -> None:
    there = Remembering("ada")
    mail = harness.app.outbox("email", there)
    row = mail.using(key="k").enqueue(ADA)
    harness.advance("10s")
    mail.retry(row.id)
    # As it was stored by such a version, with a submit of which nobody knows the outcome.
    with harness.app.transaction() as tx:
        tx.write("update duework_outbox set round = 1 where id = :id", id=row.id)
    there.lost, there.rejected = 2, ["ada"]
    harness.advance("1m")

    assert [key for _, key in there.submits] == ["k", "k:1", "k:1", "k:1"]
    assert (mail.get_message(row.id).state, there.arrived()) == ("failed", ["ada", "ada"])
    mail.retry(row.id)
    harness.advance("10s")
    assert there.submits[-1] == ("ada", "k:-2")
    assert mail.get_message(row.id).state == "sent"


def test_a_job_that_is_cancelled_by_hand_takes_its_message_with_it(harness: Harness) -> None:
    mail = harness.app.outbox("email", Upstream(poll=[Pending()]))
    later, under_way = mail.using(delay="1h").enqueue(ADA), mail.enqueue(ADA)
    harness.drain()

    for row in (later, under_way):
        harness.app.cancel(mail.get_message(row.id).job, "enough")

    assert states(harness, mail, later, under_way) == ["cancelled", "unsure"]


def test_messages_that_nobody_moves_are_found_and_settled_ones_are_deleted(
    harness: Harness,
) -> None:
    mail = harness.app.outbox("email", Upstream())
    prune = harness.app.wiring.registry.find(PRUNE_TASK).function
    lost, sent = mail.using(delay="30m").enqueue(ADA), mail.enqueue(ADA)
    failed = harness.app.outbox("sms", Upstream(submit=[Fail("no")])).enqueue(ADA)
    with harness.app.transaction() as tx:
        tx.write("delete from duework_job where id = :id", id=lost.job)
    harness.advance("3h")

    prune()
    assert states(harness, mail, lost, sent) == ["failed", "sent"]
    harness.advance("7d")
    prune()

    with pytest.raises(NotFound):
        mail.get_message(sent.id)
    assert mail.get_message(failed.id).state == "failed"


# --- with others


def test_a_message_is_queued_with_the_rows_it_belongs_to_or_not_at_all(
    harness: Harness,
) -> None:
    there = Upstream()
    mail = harness.app.outbox("email", there)

    @harness.app.task
    def order(run: Run, fails: bool) -> None:
        run.submit(mail.using(key="run" if fails else "order"), ADA)
        if fails:
            raise ValueError("no order")

    with harness.app.transaction() as tx:
        tx.submit(mail, Message("tx"))
    with contextlib.suppress(ValueError), harness.app.transaction() as tx:
        tx.submit(mail, Message("never"))
        raise ValueError("undone")
    order.enqueue(True)
    order.enqueue(False)
    harness.drain()

    assert ("ada", "order") in there.submits
    assert sorted(to for to, _ in there.submits) == ["ada", "tx"]


def test_a_run_that_reuses_a_key_for_another_body_has_failed(harness: Harness) -> None:
    mail = harness.app.outbox("email", Upstream())
    mail.using(key="k").enqueue(ADA)

    @harness.app.task
    def order(run: Run) -> None:
        run.submit(mail.using(key="k"), Message("bob"))

    job = order.enqueue()
    harness.drain()

    assert job.refresh().state == "failed"
    assert "another body" in (job.refresh().error or "")


def test_a_message_can_be_queued_in_the_callers_own_transaction(harness: Harness) -> None:
    mail = harness.app.outbox("email", Upstream())
    connection = harness.app.connect()
    connection.execute("begin")
    row = mail.using(connection=connection).enqueue(ADA)
    connection.execute("commit")
    connection.close()

    harness.drain()

    assert mail.get_message(row.id).state == "sending"


@pytest.mark.parametrize("another", [False, True])
def test_an_outbox_that_no_app_has_takes_no_message_in_a_transaction(
    harness: Harness, another: bool
) -> None:
    lost = Part("lost").outbox("mail", Upstream())
    if another:
        harness.app.outbox("mail", Upstream())

    with (
        pytest.raises(UsageError, match="no App has included"),
        harness.app.transaction() as tx,
    ):
        tx.submit(lost, Message("ada"))


def test_an_outbox_of_a_part_has_its_name(harness: Harness) -> None:
    part = Part("mailroom")
    mail = part.outbox("email", Upstream())
    with pytest.raises(UsageError, match="no App has included"):
        mail.enqueue(ADA)
    harness.app.include(part)

    row = mail.using(lane="tenant-3", priority=2).enqueue(ADA)
    harness.advance("10s")

    assert (mail.name, row.lane) == ("mailroom.email", "tenant-3")
    assert mail.get_message(row.id).state == "sent"
    assert harness.app.outboxes.names() == ["mailroom.email"]


def test_what_is_mistaken_is_refused_and_nothing_is_queued(harness: Harness) -> None:
    class NoSubmit(Outbox[str]):
        pass

    mail = harness.app.outbox("email", Upstream())
    for wrong in (print, NoSubmit()):
        with pytest.raises(UsageError):
            harness.app.outbox("wrong", wrong)  # type: ignore[arg-type]
    for options in ({"key": ""}, {"delay": "1s", "at": 0}, {"unheard": 1}, {"priority": 10}):
        with pytest.raises(UsageError):
            mail.using(**options)
    with pytest.raises(InvalidArguments):
        mail.enqueue(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments):
        mail.enqueue_many([ADA, None])  # type: ignore[list-item]

    assert sum(mail.counts().values()) == 0


def test_every_verb_has_its_twin_for_async_code(harness: Harness) -> None:
    mail = harness.app.outbox("email", Upstream())

    async def work() -> list[int]:
        row = await mail.aenqueue(ADA)
        rows = await mail.using(delay="1h").aenqueue_many([ADA])
        await mail.acancel(rows[0].id)
        return [row.id, rows[0].id]

    ids = asyncio.run(work())

    assert [mail.get_message(each).state for each in ids] == ["queued", "cancelled"]


def test_a_stored_message_that_cannot_be_read_fails_after_an_hour_and_others_flow(
    harness: Harness,
) -> None:
    there = Upstream()
    mail = harness.app.outbox("email", there)
    bad, good = mail.enqueue_many([ADA, ADA])
    with harness.app.transaction() as tx:
        tx.write("update duework_outbox set message = '{\"message\": 7}' where id = :id", id=bad.id)

    harness.advance("10s")
    assert states(harness, mail, bad, good) == ["queued", "sent"]
    harness.advance("2h")

    assert states(harness, mail, bad, good) == ["failed", "sent"]
    assert len(there.submits) == 1


# --- races


def test_a_message_that_is_being_submitted_cannot_be_cancelled(harness: Harness) -> None:
    class Late(Outbox[str]):
        def submit(self, message: str, key: str) -> Sent:  # type: ignore[override]
            [row] = mail.messages("queued")
            with pytest.raises(Conflict, match="other side"):
                mail.cancel(row.id)
            return Sent()

    mail = harness.app.outbox("late", Late())
    row = mail.enqueue("hi")
    harness.drain()

    assert mail.get_message(row.id).state == "sent"


def test_a_submit_begins_only_under_the_fence_of_the_present_lease(harness: Harness) -> None:
    mail = harness.app.outbox("email", Upstream())
    row = mail.enqueue(ADA)
    with harness.app.transaction() as tx:
        tx.write("update duework_job set worker = 1, fence = 5 where id = :id", id=row.job)
    runner = OutboxRunner(Upstream(), mail.codec, lambda: harness.app.wiring.engine)

    def begin(fence: int, job: int = row.job) -> Any:
        wanted = Wanted(row.id, job, fence, Leaving(lambda _: None))
        return harness.app.wiring.engine.writer.call(runner.begin, [wanted])[0]

    assert begin(4) == "lost"
    assert mail.get_message(row.id).submits == 0
    assert begin(5).sure
    assert begin(5) == "unsure"
    with harness.app.transaction() as tx:
        tx.write("update duework_outbox set job = 999")
    assert begin(5) == "settled"


def test_of_two_bodies_for_one_key_at_the_same_time_one_is_refused(harness: Harness) -> None:
    mail = harness.app.outbox("email", Upstream())
    answers: list[Any] = []

    def enqueue() -> None:
        try:
            answers.append(mail.using(key="k").enqueue(Message("bob")))
        except Conflict as error:
            answers.append(error)

    other = threading.Thread(target=enqueue)
    with harness.app.transaction() as tx:
        tx.submit(mail.using(key="k"), ADA)
        other.start()
        # It cannot get through before this one has committed.
        other.join(0.2)
        assert answers == []
    other.join()

    assert isinstance(answers[0], Conflict)
    assert mail.counts()["queued"] == 1


class Paced(Outbox[str]):
    submit_pace = Tick(2, "10s")

    async def submit(self, message: str, key: str) -> Sent:
        return Sent()

    async def poll(self, handle: str, message: str) -> Sent:
        return Sent()


def test_outboxes_of_one_class_have_each_their_own_pace(harness: Harness) -> None:
    first, second = (harness.app.outbox(name, Paced()) for name in ("first", "second"))
    first.enqueue_many(["a"] * 5)
    second.enqueue_many(["b"] * 5)

    harness.advance("9s")
    early = first.counts()["sent"], second.counts()["sent"]
    harness.advance("31s")

    assert early == (2, 2)
    assert (first.counts()["sent"], second.counts()["sent"]) == (5, 5)
