"""Tests of jobs without sleeping: a month passes in a moment, and workers crash on demand.

Run it with pytest, or as it is.
"""

from duework import App, Run
from duework.testing import Harness

app = App()


@app.task(retries=4, backoff=("1h", "1d", "7d", "14d"))
def remind(run: Run, user: int) -> str:
    if run.attempt <= 4:
        raise TimeoutError("the mail server does not answer")
    run.write("insert into sent(user_id, at) values (:user, :at)", user=user, at=run.now)
    return "sent"


def tables() -> None:
    with app.transaction() as tx:
        tx.write("create table sent(user_id integer, at integer)")


def test_a_reminder_is_tried_for_three_weeks() -> None:
    with Harness(app, now="2026-03-01T09:00:00+00:00", setup=tables) as h:
        job = remind.enqueue(7)

        h.advance("31d")

        assert job.refresh().result == "sent"
        assert len(job.attempts()) == 4
        assert h.assert_enqueued(remind, 7).failures == 4


def test_a_crash_at_any_statement_sends_it_once() -> None:
    statement, crashed = 1, True
    while crashed:
        with Harness(app, setup=tables) as h:
            remind.enqueue(7)
            h.advance("30d")  # the last attempt was at 22 days and an hour
            remind.enqueue(8)

            crashed = h.crash_worker(at=statement)
            h.advance("31d")

            rows = app.read("select user_id, count(*) as n from sent group by user_id")
            assert {row.user_id: row.n for row in rows} == {7: 1, 8: 1}
        statement += 1
    print(f"crashed before each of {statement - 2} statements: never lost, never twice")


if __name__ == "__main__":
    test_a_reminder_is_tried_for_three_weeks()
    test_a_crash_at_any_statement_sends_it_once()
