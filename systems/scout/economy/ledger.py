"""The cost ledger: calls of a model one by one, everything else by day.

A call of a model is a row before it is made, with the most that it can cost; what it did cost takes the place
of that as soon as it is known, with the answer. So a process that dies loses neither: an answer that was paid
for is not asked for again, and of a call whose reply is lost all that was reserved counts. The sums of a day
are changed in the same commits as the rows, so that they are equal at any moment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from duework import Budget, Throttled
from systems.scout.economy.tokens import Answer, NothingSpent, most, price
from systems.scout.part import part, settings

# What models may cost a day, over all debates and workers; `duework budgets raise llm 5` changes it.
LLM: Budget = part.budget("llm", limit="1.00", per="day", unit="$")

_ADD = (
    "insert into scout_cost_day (day, service, what, calls, units_in, units_out, cost)"
    " values (:day, :service, :what, :calls, :units_in, :units_out, :cost)"
    " on conflict (day, service, what) do update set calls = scout_cost_day.calls + excluded.calls,"
    " units_in = scout_cost_day.units_in + excluded.units_in,"
    " units_out = scout_cost_day.units_out + excluded.units_out,"
    " cost = scout_cost_day.cost + excluded.cost"
)
_OPEN = (
    "insert into scout_cost (debate, number, step, digest, model, state, reserved, cost, at)"
    " values (:debate, :number, :step, :digest, :model, 'reserved', :most, :most, :now)"
)
_CLOSE = (
    "update scout_cost set state = :state, cost = :cost, tokens_in = :tokens_in,"
    " tokens_cached = :tokens_cached, tokens_out = :tokens_out, why = :why, answer = :answer,"
    " ended_at = :now where debate = :debate and number = :number"
)
KEPT = (
    "select answer from scout_cost where debate = :debate and step = :step and digest = :digest"
    " and state = 'settled' and answer is not null order by number desc limit 1"
)

Ask = Callable[[], Awaitable[Answer]]


def day_of(now: int) -> str:
    """The day in UTC, as budgets count it."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d")


def add(
    to: Any,
    now: int,
    service: str,
    what: str,
    *,
    calls: int = 0,
    units_in: int = 0,
    units_out: int = 0,
    cost: int = 0,
) -> None:
    """Add to the sums of a day, in the commit of `to`."""
    numbers = {"calls": calls, "units_in": units_in, "units_out": units_out, "cost": cost}
    to.write(_ADD, day=day_of(now), service=service, what=what, **numbers)


async def called(service: str) -> None:
    """A call of somebody else's service is about to be made: counted before, so that none is missed."""
    async with part.app.transaction() as tx:
        add(tx, part.app.now(), "http", service, calls=1)


async def paid(debate: int, step: str, messages: list[dict[str, str]], ask: Ask) -> Answer:
    """Ask a model within the budget: from the ledger, if this was answered already."""
    digest = digest_of(messages)
    if (kept := await _kept(debate, step, digest)) is not None:
        return kept
    reserved = most(messages, settings())
    await _fits(reserved)
    async with LLM.reserve(as_dollars(reserved), note=f"{step}, debate {debate}") as spend:
        number = await _open(debate, step, digest, reserved)
        try:
            answer = await ask()
        except (NothingSpent, Throttled) as error:
            spend.release()
            await _close(debate, number, "refused", why=str(error))
            raise
        except Exception as error:
            # Nobody knows: all that was reserved counts, here and in the budget.
            await _close(debate, number, "unsure", why=str(error))
            raise
        cost = price(answer, settings())
        spend.settle(as_dollars(cost))
        await _close(debate, number, "settled", answer, cost)
    return answer


async def _fits(reserved: int) -> None:
    """Refuse what no day's budget is enough for: nobody should wait for that."""
    limit = (await LLM.astatus()).limit
    if reserved > limit * 1_000_000:
        dollars = as_dollars(reserved)
        raise NothingSpent(
            f"a question may cost ${dollars}, more than the budget of a day: raise it", lasting=True
        )


def digest_of(messages: list[dict[str, str]]) -> str:
    """The same for the same words, of the same model."""
    text = json.dumps([settings().llm_model, messages], sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=12).hexdigest()


def as_dollars(millionths: int) -> str:
    return f"{millionths // 1_000_000}.{millionths % 1_000_000:06d}"


async def _kept(debate: int, step: str, digest: str) -> Answer | None:
    rows = await part.app.aread(KEPT, debate=debate, step=step, digest=digest)
    return Answer.read(rows[0].answer) if rows else None


async def _open(debate: int, step: str, digest: str, reserved: int) -> int:
    """A row for a call that is about to be made; what an earlier process left open has no reply."""
    now, model = part.app.now(), settings().llm_model
    async with part.app.transaction() as tx:
        tx.write(
            "update scout_cost set state = 'unsure', why = 'its process has died', ended_at = :now"
            " where debate = :debate and state = 'reserved'",
            debate=debate,
            now=now,
        )
        [last] = tx.read(
            "select coalesce(max(number), 0) as n from scout_cost where debate = :debate",
            debate=debate,
        )
        number: int = last.n + 1
        tx.write(
            _OPEN,
            debate=debate,
            number=number,
            step=step,
            digest=digest,
            model=model,
            most=reserved,
            now=now,
        )
        add(tx, now, "llm", model, calls=1, cost=reserved)
    return number


async def _close(
    debate: int,
    number: int,
    state: str,
    answer: Answer | None = None,
    cost: int = 0,
    why: str | None = None,
) -> None:
    """What came of a call; its day is the one in which it was made."""
    said = answer or Answer()
    async with part.app.transaction() as tx:
        [row] = tx.read(
            "select reserved, model, at from scout_cost where debate = :debate and number = :number",
            debate=debate,
            number=number,
        )
        real = row.reserved if state == "unsure" else cost
        tx.write(
            _CLOSE,
            debate=debate,
            number=number,
            state=state,
            cost=real,
            tokens_in=said.prompt,
            tokens_cached=said.cached,
            tokens_out=said.completion,
            why=why,
            answer=answer.written() if answer else None,
            now=part.app.now(),
        )
        used = {"units_in": said.prompt, "units_out": said.completion}
        add(tx, row.at, "llm", row.model, cost=real - row.reserved, **used)


def forget(to: Any, debate: int, before: int) -> None:
    """The answers of a debate that is over, and calls that are too old; the sums of days stay."""
    to.write("update scout_cost set answer = null where debate = :debate", debate=debate)
    to.write("delete from scout_cost where at < :before", before=before)
