"""Deliveries: what is unsure first, with the three decisions; then what was sent lately, by channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from starlette.exceptions import HTTPException
from starlette.responses import Response

from duework.db.database import Tx
from duework.errors import Conflict, NotFound
from duework.kernel.error_text import redact
from duework.shapes.deliveries.channels import DELIVERIES
from duework.shapes.deliveries.operator import Decision
from duework.web.acts import acted, ask, audited, sure, told
from duework.web.lists import PAGE, address, before, number, path_id, show, text
from duework.web.regions import regions
from duework.web.rendering import first_line
from duework.web.table import NavItem, OwnPage
from duework.web.visits import Visit

# Channels that are read for one page of deliveries, and decisions that are shown at once.
CHANNELS, UNSURE = 300, 20
ALL = 1000
To = Literal["sending", "sent", "failed"]


@dataclass(frozen=True, slots=True)
class SentOn:
    """One channel of a delivery, for a list."""

    channel: str
    state: str
    error: str
    settled: int | None


@dataclass(frozen=True, slots=True)
class DeliveryLine:
    """A delivery and its channels."""

    job: int
    task: str
    key: str | None
    channels: tuple[SentOn, ...]

    @property
    def outcome(self) -> tuple[str, str]:
        """The glyph and the word for all channels together."""
        states = {each.state for each in self.channels}
        for state in ("sending", "unsure"):
            if state in states:
                return state, state
        if states == {"sent"}:
            return "done", "sent"
        return ("failed", "failed") if states == {"failed"} else ("late", "partial")

    @property
    def settled(self) -> int | None:
        times = [each.settled for each in self.channels if each.settled is not None]
        return max(times, default=None)


def deliveries(visit: Visit) -> Response:
    """What somebody has to decide, then the newest."""
    unsure = visit.app.deliveries.unsure(limit=UNSURE)
    jobs = {int(job.id): job for job in visit.app.wiring.jobs.get_many([job for job, _ in unsure])}
    lines, older = _recent(visit, before(visit))
    return show(
        *(visit, "deliveries.html"),
        rows=lines,
        unsure=[(job, jobs.get(job), each, first_line(each.error)) for job, each in unsure],
        sending=sum(line.outcome[0] == "sending" for line in lines),
        bad=sum(line.outcome[0] in {"failed", "late"} for line in lines),
        newest=address(visit.base, "/deliveries") if visit.asked("before") else "",
        older=address(visit.base, "/deliveries", before=older) if older else "",
    )


def _recent(visit: Visit, start: int) -> tuple[list[DeliveryLine], int | None]:
    """The newest deliveries, and where to go on."""
    with visit.app.wiring.engine.database.reading() as tx:
        rows = tx.query(DELIVERIES.recent, {"before": start, "wanted": CHANNELS})
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    more = len(rows) == CHANNELS and len(found) > 1
    if more:
        # The last one may have more channels than were read.
        found.popitem()
    shown = [_line(job, some) for job, some in list(found.items())[:PAGE]]
    more = more or len(found) > PAGE
    return shown, shown[-1].job if shown and more else None


def _line(job: int, rows: list[tuple[Any, ...]]) -> DeliveryLine:
    channels = tuple(
        SentOn(channel, state, first_line(error), settled)
        for _, channel, state, error, settled, *_ in rows
    )
    task, key = rows[0][6:8]
    return DeliveryLine(job, task or "gone", key, channels)


def delivery(visit: Visit) -> Response:
    """One delivery: each channel, what became of it, and what can be decided."""
    identifier = path_id(visit, "delivery")
    channels = visit.app.deliveries.channels(identifier)
    if not channels:
        raise NotFound(f"there is no delivery {identifier} with channels")
    jobs = visit.app.wiring.jobs.get_many([identifier])
    return show(
        *(visit, "delivery.html"),
        heading=jobs[0].task if jobs else f"Delivery {identifier}",
        identifier=identifier,
        job=jobs[0] if jobs else None,
        channels=channels,
        unsure=[each for each in channels if each.state == "unsure"],
    )


# --- deciding


def _decide(visit: Visit, what: str, state: To, said: str) -> Response:
    job, channel = number(visit, "job"), text(visit, "channel")
    return acted(visit, what, _called(job, channel), _act(visit, job, channel, state), said)


def _called(job: int, channel: str) -> str:
    return f"channel {channel} of delivery {job}"


def _act(visit: Visit, job: int, channel: str, state: To) -> Callable[[Tx], str]:
    why = (redact(visit.sent("why")) or "given up by hand") if state == "failed" else None
    decision = Decision(job, channel, state, why)

    def act(tx: Tx) -> str:
        visit.app.deliveries.decide_all(tx, [decision])
        return state

    return act


def sent(visit: Visit) -> Response:
    """It has arrived; of all that are unsure if no job is named, after asking."""
    if visit.sent("job"):
        return _decide(visit, "call sent", "sent", "It is written down as sent")
    if not sure(visit):
        return _ask_all(
            visit, "All of them have arrived?", "They are written down as sent.", "sent"
        )
    return _all(visit, "call sent", "sent")


def resend(visit: Visit) -> Response:
    """Send it once more, after asking; of all that are unsure if no job is named."""
    if sure(visit):
        if visit.sent("job"):
            return _decide(visit, "resend", "sending", "It is sent once more, with the same key")
        return _all(visit, "resend", "sending")
    warning = "If it did arrive, and the other side does not know its key, it arrives twice."
    if not visit.sent("job"):
        return _ask_all(visit, "Send all of them again?", warning, "sending")
    job, channel = number(visit, "job"), text(visit, "channel")
    return ask(
        *(visit, f"Send {channel} of {job} again?", warning),
        effects=[("sending", "It is sent once more, with the same key")],
        fields=[("job", job), ("channel", channel)],
        crumb=("/deliveries", "Deliveries"),
        button="Send it again",
    )


def give_up(visit: Visit) -> Response:
    """It has failed; only a retry of its delivery sends it again. After asking."""
    job, channel = number(visit, "job"), text(visit, "channel")
    if sure(visit):
        return _decide(visit, "give up", "failed", "It is given up")
    return ask(
        *(visit, f"Give {channel} of {job} up?"),
        "It counts as failed; only a retry of the whole delivery sends it again.",
        effects=[("failed", "The channel has failed"), ("done", "Other channels stay as they are")],
        fields=[("job", job), ("channel", channel)],
        crumb=("/deliveries", "Deliveries"),
        button="Give it up",
    )


def _ask_all(visit: Visit, question: str, warning: str, state: To) -> Response:
    count = len(visit.app.deliveries.unsure(limit=ALL))
    return ask(
        *(visit, question, warning),
        effects=[(state, f"{count:,} channels that are unsure now")],
        crumb=("/deliveries", "Deliveries"),
        keep="Decide one by one",
        button=f"Yes, all {count:,}",
    )


def _all(visit: Visit, what: str, state: To) -> Response:
    """Each by itself, with a line of its own: one that was decided meanwhile stops nothing."""
    if state == "failed":
        raise HTTPException(400, "One by one.")
    done = 0
    for job, each in visit.app.deliveries.unsure(limit=ALL):
        try:
            act = _act(visit, job, each.channel, state)
            audited(visit, what, _called(job, each.channel), act)
            done += 1
        except (Conflict, NotFound):
            continue
    return told(visit, "unsure channels", f"{done} decided", "{}")


LIVE = regions("deliveries", unsure=0.5, deliveries=0.5)
ONE = regions("deliveries", head=0.5, detail=0.5)
NAV = NavItem("Deliveries", "deliveries", "Outside", key="d", needs=("unsure",))
PAGES = [
    OwnPage("/deliveries", deliveries, live=LIVE, nav=NAV),
    OwnPage("/deliveries/{id:int}", delivery, live=ONE),
    OwnPage("/deliveries/sent", sent, "operate", "POST"),
    OwnPage("/deliveries/resend", resend, "operate", "POST"),
    OwnPage("/deliveries/give-up", give_up, "operate", "POST"),
]
