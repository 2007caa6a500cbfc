"""Each call of a receiver with what it answered, and what that says of the receiver.

Calls that fail one after the other are counted. At half of what the settings allow its contact is warned
by mail, and the page says so; at all of it the endpoint is switched off. One that goes well starts at 0.
"""

from __future__ import annotations

import logging
import secrets as randomness
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from duework import Error, Send, Transaction
from systems.reminders.part import part

LOG = logging.getLogger("duework.reminders")

KEPT_BYTES = 2048
Kind = Literal["send", "replay", "test"]


@dataclass(frozen=True, slots=True)
class Call:
    """One POST: whom, under which id, when, and what came back."""

    endpoint: str
    webhook_id: str
    at: int
    until: int
    kind: Kind = "send"
    job: int | None = None
    status: int | None = None
    error: str | None = None
    answer: str | None = None

    @property
    def row(self) -> dict[str, Any]:
        kept = None if self.answer is None else cut(self.answer)
        return {
            "id": f"{self.at:013}-{randomness.token_hex(4)}",
            "kind": self.kind,
            "job": self.job,
            "endpoint": self.endpoint,
            "webhook_id": self.webhook_id,
            "at": self.at,
            "took": max(0, self.until - self.at),
            "status": self.status,
            "error": None if self.error is None else self.error[:500],
            "answer": kept,
        }


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A call as it is listed; times in milliseconds."""

    id: str
    kind: Kind
    job: int | None
    endpoint: str
    webhook_id: str
    at: int
    took_ms: int
    status: int | None
    error: str | None
    answer: str | None


def cut(text: str) -> str:
    """The first 2 KiB, at the end of a character; a database stores no NUL."""
    return text.replace("\0", "\ufffd").encode()[:KEPT_BYTES].decode("utf-8", "ignore")


def recent(*, endpoint: str = "", webhook_id: str = "", limit: int = 50) -> list[Attempt]:
    """The newest calls first: of one endpoint, of one id, or all."""
    rows = part.app.read(
        "select * from reminders_attempt where (:endpoint = '' or endpoint = :endpoint)"
        " and (:wid = '' or webhook_id = :wid) order by at desc, id desc limit :wanted",
        endpoint=endpoint,
        wid=webhook_id,
        wanted=min(limit, 1000),
    )
    names = Attempt.__struct_fields__
    return [Attempt(**{name: getattr(row, name) for name in names}) for row in rows]


def note(to: Send, call: Call) -> None:
    """With the channel's own outcome."""
    to.write(INSERT, **call.row)


def went_well(to: Send, call: Call, endpoint: Any) -> None:
    """In one commit with the outcome: the call, and a count that starts again."""
    note(to, call)
    if endpoint.failures:
        to.write(WELL, id=call.endpoint)


async def kept(call: Call) -> None:
    """A call that says nothing about a fire: a test, a replay."""
    async with part.app.transaction() as tx:
        tx.write(INSERT, **call.row)
        tx.touch("reminders")


async def failed(call: Call, most: int) -> None:
    """A call that failed, in a commit of its own: the channel goes on, whatever becomes of it."""
    try:
        await _failed(call, most)
    except Error:
        # What the receiver said counts, not whether we could write it down.
        LOG.exception("a call of %s is not in the log", call.endpoint)


async def _failed(call: Call, most: int) -> None:
    async with part.app.transaction() as tx:
        tx.write(INSERT, **call.row)
        tx.write(FAILED, id=call.endpoint)
        rows = tx.read("select * from reminders_endpoint where id = :id", id=call.endpoint)
        if rows and rows[0].state == "on":
            _judge(tx, rows[0], most, call)
        tx.touch("reminders")


def _judge(tx: Transaction, endpoint: Any, most: int, call: Call) -> None:
    """Warn, or switch off; each once, since it is written down in this commit."""
    why = f"{endpoint.failures} calls failed one after the other, the last with {_words(call)}"
    if endpoint.failures >= most:
        tx.write(OFF, reason=why, now=call.until, id=endpoint.id)
        _tell(tx, endpoint, f"{endpoint.name} is switched off", f"{why}. Nothing is sent there.")
    elif endpoint.failures * 2 >= most and endpoint.warned_at is None:
        tx.write(WARNED, now=call.until, id=endpoint.id)
        threat = f"After {most - endpoint.failures} more it is switched off."
        _tell(tx, endpoint, f"{endpoint.name} does not answer", f"{why}. {threat}")


def _words(call: Call) -> str:
    return str(call.status) if call.status is not None else (call.error or "no answer")


def _tell(tx: Transaction, endpoint: Any, subject: str, text: str) -> None:
    """By mail to its contact, if it has one."""
    from systems.reminders.fire import tell

    if endpoint.contact:
        tx.enqueue(tell, endpoint.contact, f"Webhooks: {subject}", text)


INSERT = """
insert into reminders_attempt
    (id, kind, job, endpoint, webhook_id, at, took_ms, status, error, answer)
values (:id, :kind, :job, :endpoint, :webhook_id, :at, :took, :status, :error, :answer)
"""
WELL = "update reminders_endpoint set failures = 0, warned_at = null where id = :id"
WARNED = "update reminders_endpoint set warned_at = :now where id = :id"
FAILED = "update reminders_endpoint set failures = failures + 1 where id = :id"
OFF = """
update reminders_endpoint set state = 'off', reason = :reason, updated_at = :now
where id = :id and state = 'on'
"""
