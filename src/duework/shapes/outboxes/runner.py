"""How the jobs of an outbox move its messages: one submits, the next polls until it is known."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duework.codec import ArgumentCodec
from duework.db.database import Tx
from duework.durations import Duration, human, milliseconds
from duework.errors import InvalidArguments, UsageError
from duework.kernel.error_text import describe, said, storable
from duework.kernel.moves import delay_lanes
from duework.kernel.outcomes import Cancel, Fail, Misfit, Outcome, Retry, Snooze, Throttled
from duework.kernel.run import Run, buffer_of
from duework.shapes.outboxes.answers import Accepted, Pending, Rejected, Sent
from duework.shapes.outboxes.messages import (
    HOUR,
    KIND,
    OUTBOXES,
    MessageState,
    OutboxMessage,
    ended,
    job_for,
    locked,
    poll_task,
    report_move,
    seen,
    submit_task,
    unseen,
)
from duework.shapes.sends import Refusal, Sends, Wanted
from duework.shapes.shape import doing, waited_for

if TYPE_CHECKING:
    from duework.kernel.engine import Engine
    from duework.kernel.job import Ending, LockedJob
    from duework.shapes.outboxes.handle import Outbox

# Polls that fail come at growing distances, up to this.
SLOWEST_POLL_MS = HOUR // 6


@dataclass(frozen=True, slots=True)
class Go:
    """It may: its start is committed. `sure`: no submit before it has an unknown outcome."""

    row: OutboxMessage
    sure: bool


class OutboxRunner(Sends[int, Go]):
    """The sending side of one declared outbox."""

    def __init__(
        self, outbox: Outbox[Any], codec: ArgumentCodec, engine: Callable[[], Engine]
    ) -> None:
        super().__init__(engine)
        self.name = ""
        self._outbox = outbox
        # What a test has put in its place: it is called, by the rules of the one that was declared.
        self.stand_in: Any = None
        self._codec = codec
        memory = outbox.remembers_keys
        self._memory_ms = None if memory is None else milliseconds(memory)
        self._timeout_ms = milliseconds(outbox.timeout)
        self._every_ms = milliseconds(outbox.poll_every)
        self._limit_ms = milliseconds(outbox.running_limit)
        self._keep_ms = None if outbox.keep is None else milliseconds(outbox.keep)

    @property
    def _other_side(self) -> Any:
        """Looked up for each call, and its methods too: a test that patches one means the next call."""
        return self._outbox if self.stand_in is None else self.stand_in

    # --- submitting

    def submitter(self) -> Callable[..., Any]:
        """The function behind the jobs that submit."""
        if inspect.iscoroutinefunction(self._outbox.submit):

            async def asubmit(run: Run, message: int) -> Any:
                return await self.asend_now(run, message)

            return asubmit

        def submit(run: Run, message: int) -> Any:
            return self.send_now(run, message)

        return submit

    def mark(self, tx: Tx, wanted: Wanted[int], now: int) -> Go | Refusal:
        rows = seen(tx, [wanted.what])
        if not rows or rows[0].job != wanted.job or rows[0].state != "queued":
            return "settled"
        since = rows[0].unsure_since
        if since is not None and not self._remembered(since, now):
            return "unsure"
        tx.query(OUTBOXES.start_submit, {"id": wanted.what, "now": now})
        if since is None:
            wanted.leaving.stays()
        return Go(rows[0], sure=since is None)

    def prepare(self, _run: Run, _what: int, go: Go) -> Callable[[], Any]:
        body = self._body(go.row)
        return lambda: self._other_side.submit(body, go.row.sent_key)

    def _remembered(self, since: int, now: int) -> bool:
        """Whether the other side will know the key until a submit that begins now is over."""
        return self._memory_ms is not None and now + self._timeout_ms < since + self._memory_ms

    def _body(self, row: OutboxMessage) -> Any:
        try:
            return self._codec.decode(row.stored)[0][0]
        except InvalidArguments as error:
            # Stored by code of another version, perhaps: nothing was sent, and that one may take it.
            raise Misfit(f"it does not fit this worker's version of the outbox: {error}") from None

    def unsure(self, run: Run, what: int) -> None:
        self._ends(run, what, "unsure", "nobody can tell whether it was taken")

    def answered(self, run: Run, _what: int, go: Go, answer: Any) -> None:
        row = go.row
        match answer:
            case Accepted(handle=str() as handle) if handle:
                self._accepted(run, row, handle, answer.after)
            case Sent():
                self._ends(run, row.id, "sent", None)
            case Rejected():
                self._ends(run, row.id, "failed", answer.why)
            case _:
                # The other side may have it: it stays unsure.
                message = (
                    f"submit returns Accepted(handle), Sent() or Rejected(why), not {answer!r:.100}"
                )
                raise UsageError(message)

    def _accepted(self, run: Run, row: OutboxMessage, handle: str, after: Duration | None) -> None:
        engine, now, job = self._engine(), run.now, run.job.id
        wait = self._every_ms if after is None else milliseconds(after)
        poll = job_for(row, poll_task(self.name), row.id, now + wait)

        def accept(tx: Tx) -> None:
            values = {"id": row.id, "handle": storable(handle), "job": job, "now": now}
            tx.query(OUTBOXES.accepted, {**values, "poll": engine.enqueue(tx, [poll])[0].id})
            report_move(tx, engine, self.name, row.id, "sending")

        buffer_of(run).add(accept)

    def raised(self, run: Run, _what: int, go: Go, error: Exception, *, harmless: bool) -> Any:
        outbox, row = self._outbox, go.row
        if isinstance(error, outbox.lost) and not harmless:
            if self._memory_ms is not None:
                raise error
            self._ends(
                run, row.id, "unsure", f"nobody can tell whether it was taken: {describe(error)}"
            )
            return None
        text = said(error) if isinstance(error, Outcome) else describe(error)
        if isinstance(error, (Fail, Cancel, InvalidArguments, *outbox.give_up_on)):
            self._ends(run, row.id, "failed" if go.sure else "unsure", text)
            return Fail(text)
        values = {"id": row.id, "job": run.job.id, "sure": int(go.sure), "error": text}
        buffer_of(run).add(doing(OUTBOXES.forget_start, values))
        if isinstance(error, Throttled):
            self._hold(run, error)
        if isinstance(error, Outcome):
            return error
        return Retry(None, text)

    def _hold(self, run: Run, error: Throttled) -> None:
        """The other side asked us to slow down: that goes for everything we ask of it."""
        tasks = [submit_task(self.name), poll_task(self.name)]
        until = run.now + error.after_ms
        buffer_of(run).add(lambda tx: delay_lanes(tx, tasks, until))

    # --- polling

    def poller(self) -> Callable[..., Any]:
        """The function behind the jobs that poll."""
        if inspect.iscoroutinefunction(self._outbox.poll):

            async def apoll(run: Run, message: int) -> Any:
                if (row := self._to_poll(run, message)) is None:
                    return None
                try:
                    answer = self._other_side.poll(row.handle, self._body(row))
                    if inspect.isawaitable(answer):
                        answer = await answer
                except Exception as error:  # noqa: BLE001 - whatever it raises is the outcome
                    return self._not_polled(run, row, error)
                return self._polled(run, row, answer)

            return apoll

        def poll(run: Run, message: int) -> Any:
            if (row := self._to_poll(run, message)) is None:
                return None
            try:
                answer = waited_for(self._other_side.poll(row.handle, self._body(row)))
            except Exception as error:  # noqa: BLE001 - whatever it raises is the outcome
                return self._not_polled(run, row, error)
            return self._polled(run, row, answer)

        return poll

    def _to_poll(self, run: Run, message: int) -> OutboxMessage | None:
        """The message, if this job still has to ask about it."""
        with self._engine().database.reading() as tx:
            found = seen(tx, [message])
        if not found or found[0].job != run.job.id or found[0].state != "sending":
            return None
        if run.job.failures and self._over_age(run, found[0], None):
            # Polls that run into their timeout never come to the check below.
            return None
        return found[0]

    def _polled(self, run: Run, row: OutboxMessage, answer: Any) -> Any:
        match answer:
            case Sent():
                self._ends(run, row.id, "sent", None)
                return None
            case Rejected():
                self._ends(run, row.id, "failed", answer.why)
                return None
            case Pending():
                wait = self._every_ms if answer.after is None else milliseconds(answer.after)
                return self._later(run, row, None, wait)
            case _:
                text = f"poll returns Pending(), Sent() or Rejected(why), not {answer!r:.100}"
                return self._later(run, row, text, self._slower(row))

    def _not_polled(self, run: Run, row: OutboxMessage, error: Exception) -> Any:
        """One bad poll says nothing about the message; the next one may."""
        text = said(error) if isinstance(error, Outcome) else describe(error)
        if isinstance(error, Fail):
            self._ends(run, row.id, "failed", text)
            return None
        if isinstance(error, Throttled):
            self._hold(run, error)
        wait = error.after_ms if isinstance(error, (Throttled, Snooze)) else self._slower(row)
        return self._later(run, row, text, wait)

    def _slower(self, row: OutboxMessage) -> int:
        grown: int = self._every_ms << min(row.errors, 20)
        return max(self._every_ms, min(grown, SLOWEST_POLL_MS))

    def _later(self, run: Run, row: OutboxMessage, error: str | None, wait_ms: int) -> Any:
        if self._over_age(run, row, error):
            return None
        values = {"id": row.id, "job": row.job, "now": run.now}
        text = None if error is None else storable(error)
        buffer_of(run).add(doing(OUTBOXES.polled, {**values, "error": text}))
        return Snooze(wait_ms / 1000)

    def _over_age(self, run: Run, row: OutboxMessage, error: str | None) -> bool:
        if run.now - (row.accepted or 0) < self._limit_ms:
            return False
        last = "" if error is None else f"; the last poll: {error}"
        text = f"the other side has not said what became of it in {human(self._limit_ms)}{last}"
        self._ends(run, row.id, "unsure", text)
        return True

    # --- ending

    def _ends(self, run: Run, message: int, state: MessageState, error: str | None) -> None:
        """Settle the message with the settle of the job that found out."""
        engine, now = self._engine(), run.now

        def end(tx: Tx) -> None:
            for row in locked(tx, [message]):
                if row.job == run.job.id:
                    ended(tx, engine, row, state, error, now=now, keep_ms=self._keep_ms)

        buffer_of(run).add(end)

    def settled(self, tx: Tx, job: LockedJob, ending: Ending) -> None:
        """A job has ended for good; if it left its message where it was, that has ended too."""
        kind, _, message = (job.owner or "").partition(":")
        if kind != KIND or job.task.rpartition(".")[0] != self.name or ending.kind == "done":
            return
        engine = self._engine()
        for row in seen(tx, [int(message)]):
            if row.job != job.id or row.settled is not None:
                continue
            now, why = engine.clock.now(), ending.error or ending.kind
            if ending.kind == "cancelled" and row.state == "queued" and row.unsure_since is None:
                ended(tx, engine, row, "cancelled", why, now=now, keep_ms=self._keep_ms)
            else:
                unseen(tx, engine, row, why, now=now)
