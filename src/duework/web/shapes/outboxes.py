"""Outboxes: messages by state, unsure ones first; retry, cancel, decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from duework.clock import FOREVER
from duework.db.database import Tx
from duework.errors import NotFound
from duework.handles import Job
from duework.health.activity import slots_of
from duework.kernel.error_text import redact, storable
from duework.shapes.outboxes.messages import BOUND, OUTBOXES, STATES, OutboxMessage, submit_task
from duework.web.acts import acted, ask, sure, told, written
from duework.web.filters import clock
from duework.web.lists import PAGE, address, before, number, one_of, path_id, required, show, text
from duework.web.regions import regions
from duework.web.rendering import first_line
from duework.web.table import NavItem, OwnPage
from duework.web.visits import SOON, Visit

GLYPHS = {"queued": "queued"}


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """An outbox with its messages by state, each counted up to a bound."""

    name: str
    counts: dict[str, int]


def _lines(visit: Visit) -> list[OutboxCounts]:
    with visit.app.wiring.engine.database.reading() as tx:
        rows = tx.query(OUTBOXES.counts_of_all, {"bound": BOUND})
    return [OutboxCounts(name, dict(zip(STATES, counts, strict=True))) for name, *counts in rows]


def outboxes(visit: Visit) -> Response:
    """Every outbox, those with unsure messages first."""
    lines = _lines(visit)
    lines.sort(key=lambda line: (-line.counts["unsure"], -line.counts["failed"], line.name))
    return show(
        *(visit, "outboxes.html"),
        rows=lines,
        states=STATES,
        unsure=sum(line.counts["unsure"] for line in lines),
        bad=sum(line.counts["failed"] for line in lines),
        open=sum(line.counts["queued"] + line.counts["sending"] for line in lines),
    )


def outbox(visit: Visit) -> Response:
    """One outbox: its counts and messages, and how fast it submits."""
    name = required(visit, "name")
    line = next((each for each in _lines(visit) if each.name == name), None)
    if line is None:
        raise NotFound(f"There is no outbox {name} with messages.")
    state: Any = one_of(visit, "state", STATES)
    lane, app = text(visit, "lane"), visit.app
    found = app.outboxes.messages(
        name, state=state or None, lane=lane or None, before=before(visit), limit=PAGE + 1
    )
    shown, now = found[:PAGE], app.now()
    jobs = {int(job.id): job for job in app.wiring.jobs.get_many([each.job for each in shown])}
    with app.wiring.engine.database.reading() as tx:
        seen = slots_of(tx, now=now, tasks=[submit_task(name)], minutes=5, slots=12)
    visit.again = SOON if line.counts["queued"] + line.counts["sending"] else None
    times = [clock(seen.first + place * seen.step, visit.zone)[:5] for place in range(12)]

    def here(**more: str | int) -> str:
        asked = {"name": name, "state": state, "lane": lane, **more}
        return address(visit.base, "/outboxes/one", **asked)

    return show(
        *(visit, "outbox.html"),
        heading=name,
        crumb=("/outboxes", "Outboxes"),
        line=line,
        rows=shown,
        why={each.id: _why(each, jobs.get(each.job), now) for each in shown},
        paces=_paces(visit, name),
        tabs=[("All", here(state=""), not state, None)]
        + [
            (each.capitalize(), here(state=each), each == state, line.counts[each])
            for each in STATES
        ],
        filters=[("lane", "Messages of this lane", lane)],
        kept=[("name", name), *([("state", state)] if state else [])],
        chosen=[("lane", lane, here(lane=""))] if lane else [],
        newest=here() if visit.asked("before") else "",
        older=here(before=shown[-1].id) if len(found) > PAGE else "",
        bars=[[each.done, each.failed] for each in seen.counted],
        labels=[time if place % 3 == 0 else "" for place, time in enumerate(times)],
        tips=[
            f"{time}: {each.done:,} submits, {each.failed:,} failed"
            for time, each in zip(times, seen.counted, strict=True)
        ],
    )


def _why(message: OutboxMessage, job: Job[Any] | None, now: int) -> tuple[str, int | None]:
    """Why it is not sent yet or what it failed of; and until when that holds, if that is known."""
    if message.state in {"sent", "cancelled", "failed", "unsure"}:
        return first_line(message.error), None
    said = f"{first_line(message.error)}; " if message.error else ""
    if job is None or job.state != "open":
        return f"{said}its job is gone", None
    if job.worker is not None:
        return f"{said}with the other side now", None
    if message.state == "sending":
        return f"{said}accepted, polled again", job.due if job.due > now else None
    return f"{said}waits", job.due if now < job.due < FOREVER else None


def _paces(visit: Visit, name: str) -> list[tuple[str, str]]:
    """(what, the pace's name) of its two tasks."""
    gates = visit.app.wiring.registry.task_paces
    return [
        (what, gate.name) for what in ("submit", "poll") for gate in gates.get(f"{name}.{what}", ())
    ]


def message(visit: Visit) -> Response:
    """One message: where it is, why, what it says."""
    found = visit.app.outboxes.get_message(path_id(visit, "message"))
    jobs = visit.app.wiring.jobs.get_many([found.job])
    open_job = bool(jobs) and jobs[0].state == "open"
    visit.again = SOON if open_job else None
    return show(
        *(visit, "message.html"),
        heading=found.key,
        message=found,
        error=first_line(found.error),
        why=visit.app.why(found.job) if open_job else None,
    )


# --- acting


def _desk(visit: Visit, what: str, act: Any, said: str) -> Response:
    identifier = number(visit, "id")
    operator = visit.app.outboxes
    # A message that is not there is told as such, and not as one that was done.
    operator.get_message(identifier)
    return acted(
        visit, what, f"message {identifier}", lambda tx: act(operator, tx, identifier), said
    )


def retry(visit: Visit) -> Response:
    """Queue it again: a failed or cancelled one at once, an unsure one after asking; or all failed ones."""
    if visit.sent("name"):
        return _retry_failed(visit, required(visit, "name"))

    def act(operator: Any, tx: Tx, identifier: int) -> str:
        operator.queue_again(tx, [identifier])
        return "queued"

    found = visit.app.outboxes.get_message(number(visit, "id"))
    if found.state == "unsure" and not sure(visit):
        return ask(
            *(visit, f"Send message {found.key} again?"),
            "If it did arrive, and the other side does not know its key, it arrives twice.",
            effects=[("sending", "It is submitted once more")],
            fields=[("id", found.id)],
            crumb=("/outboxes", "Outboxes"),
            button="Send it again",
        )
    return _desk(visit, "retry", act, "It is queued again")


def _retry_failed(visit: Visit, name: str) -> Response:
    operator = visit.app.outboxes
    count = written(
        visit, "retry failed", f"outbox {name}", lambda: sum(operator.retry_failed(name))
    )
    return told(visit, f"outbox {name}", f"{count} queued again", "{}")


def cancel(visit: Visit) -> Response:
    """End a queued message, after asking."""
    found = visit.app.outboxes.get_message(number(visit, "id"))
    if not sure(visit):
        return ask(
            *(visit, f"Cancel message {found.key}?", "It is not submitted any more."),
            effects=[
                ("cancelled", "A message that is queued ends"),
                ("sent", "One that was taken goes on"),
            ],
            fields=[("id", found.id)],
            crumb=("/outboxes", "Outboxes"),
            keep="Keep it",
            button="Cancel the message",
        )
    why = redact(visit.sent("why")) or "cancelled by hand"
    return _desk(
        *(visit, "cancel"),
        lambda operator, tx, identifier: operator.cancel_all(tx, [(identifier, why)])[0],
        "It is {}",
    )


def sent(visit: Visit) -> Response:
    """An unsure message has arrived."""

    def act(operator: Any, tx: Tx, identifier: int) -> str:
        operator.decide(tx, [(identifier, "sent", None)])
        return "sent"

    return _desk(visit, "call sent", act, "It is written down as sent")


def give_up(visit: Visit) -> Response:
    """An unsure message has failed; after asking."""
    found = visit.app.outboxes.get_message(number(visit, "id"))
    if not sure(visit):
        return ask(
            *(visit, f"Give message {found.key} up?", "It counts as failed; Retry sends it again."),
            effects=[("failed", "The message has failed")],
            fields=[("id", found.id)],
            crumb=("/outboxes", "Outboxes"),
            button="Give it up",
        )
    why = storable(redact(visit.sent("why")) or "given up by hand")

    def act(operator: Any, tx: Tx, identifier: int) -> str:
        operator.decide(tx, [(identifier, "failed", why)])
        return "failed"

    return _desk(visit, "give up", act, "It is given up")


LIVE = regions("outboxes", outboxes=0.5)
ONE = regions("outboxes", tiles=0.5, messages=0.5)
NAV = NavItem("Outboxes", "outboxes", "Outside", needs=("unsure", "failing"))
PAGES = [
    OwnPage("/outboxes", outboxes, live=LIVE, nav=NAV),
    OwnPage("/outboxes/one", outbox, live=ONE),
    OwnPage("/outboxes/messages/{id:int}", message, live=regions("outboxes", head=0.5, detail=0.5)),
    OwnPage("/outboxes/retry", retry, "operate", "POST"),
    OwnPage("/outboxes/cancel", cancel, "operate", "POST"),
    OwnPage("/outboxes/sent", sent, "operate", "POST"),
    OwnPage("/outboxes/give-up", give_up, "operate", "POST"),
]
