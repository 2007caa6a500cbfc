"""What an operator can do about channels of which nobody can tell whether they were sent.

Three decisions, and none of them needs the code behind the delivery: send it once more, call it sent,
or give it up. Each is taken once: whoever comes second is told what the channel is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from duework.averbs import Verbs, averb
from duework.db.database import Tx
from duework.errors import NotFound
from duework.kernel.error_text import storable
from duework.kernel.job import LaneName, NewJob
from duework.kernel.settle import lock_jobs
from duework.shapes.deliveries.channels import DELIVERIES, KIND, Sending, sending
from duework.shapes.sends import must_be_unsure

_MOST = 1000


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of an unsure channel."""

    job: int
    channel: str
    state: Literal["sending", "sent", "failed"]
    why: str | None = None


class DeliveryOperator(Verbs):
    """The channels of every delivery, for operators; needs none of their code."""

    def channels(self, job: int) -> list[Sending]:
        """What became of each channel of a delivery; empty before its body has run."""
        with self.engine.database.reading() as tx:
            return _channels(tx, job)

    def unsure(self, *, before: int = 2**62, limit: int = 50) -> list[tuple[int, Sending]]:
        """Deliveries with unsure channels, newest first; go on with `before=` the last job."""
        values = {"before": before, "wanted": min(limit, _MOST)}
        with self.engine.database.reading() as tx:
            return [
                (job, each)
                for (job,) in tx.query(DELIVERIES.unsure, values)
                for each in _channels(tx, job)
                if each.state == "unsure"
            ]

    def resend(self, job: int, channel: str) -> list[Sending]:
        """Send it once more, with the same key; the delivery waits for it and judges anew."""
        return self._decide(Decision(int(job), channel, "sending"))

    def call_sent(self, job: int, channel: str) -> list[Sending]:
        """Somebody has looked, and it has arrived."""
        return self._decide(Decision(int(job), channel, "sent"))

    def give_up(self, job: int, channel: str, why: str = "given up by hand") -> list[Sending]:
        """It has failed; only a retry of its delivery by hand sends it again."""
        return self._decide(Decision(int(job), channel, "failed", storable(why)))

    achannels = averb(channels)
    aunsure = averb(unsure)
    aresend = averb(resend)
    acall_sent = averb(call_sent)
    agive_up = averb(give_up)

    def _decide(self, decision: Decision) -> list[Sending]:
        self.engine.writer.call(self.decide_all, [decision])
        return self.channels(decision.job)

    def decide_all(self, tx: Tx, decisions: list[Decision]) -> Sequence[None]:
        for each in decisions:
            # The delivery first: that is the order in which a channel that settles locks the two.
            row = lock_jobs(tx, [each.job]).get(each.job)
            if row is None:
                raise NotFound(f"there is no job {each.job}")
            found = {one.channel: one for one in _channels(tx, each.job)}
            if each.channel not in found:
                known = ", ".join(found) or "none"
                raise NotFound(f"job {each.job} has no channel {each.channel!r}; it has: {known}")
            must_be_unsure(f"channel {each.channel} of job {each.job}", found[each.channel].state)
            if each.state == "sending":
                self._send(tx, row, found[each.channel])
            else:
                values = {"job": each.job, "channel": each.channel, "state": each.state}
                values |= {"error": each.why, "now": self.engine.clock.now()}
                failed = each.state == "failed"
                # A delivery that is still open has yet to count it.
                concluded = failed and row.state != "open"
                values |= {"given_up": int(failed), "concluded": int(concluded)}
                tx.query(DELIVERIES.decide, values)
        return [None for _ in decisions]

    def _send(self, tx: Tx, row: Any, one: Sending) -> None:
        engine = self.engine
        now, lane = engine.clock.now(), engine.lanes.name(tx, row.lane)
        task = LaneName(lane.queue, f"{row.task}.{one.channel}", lane.priority)
        child = NewJob(task, one.payload, now, owner=f"{KIND}:{row.id}")
        if row.state != "open":
            # Other channels that failed are not sent again for that: they are only judged again.
            tx.query(DELIVERIES.judge_anew, {"job": row.id})
        values = {"job": row.id, "channel": one.channel, "was": "unsure"}
        tx.query(DELIVERIES.again, {**values, "child": engine.enqueue(tx, [child])[0].id})
        engine.revive(tx, [row.id])


def _channels(tx: Tx, job: int) -> list[Sending]:
    return [sending(row) for row in tx.query(DELIVERIES.channels, {"job": int(job)})]
