"""Telling people: Discord and Telegram, never two messages for one person, day and channel.

What is promised is a row with that key, written in the commit that also stores the delivery. Neither side
takes an idempotency key, so a reply that is lost leaves the message *unsure*: shown, and not sent again.
"""

from __future__ import annotations

from typing import Any

from duework import Cancel, Channel, Fail, Job, Rate, Run, Send, Transaction, http
from systems.streaks.github import client
from systems.streaks.part import part
from systems.streaks.proxy import Answer, relay
from systems.streaks.streak import local_day

# What the pages are told when something of it has changed.
TOPIC = "streaks"
# Discord's flag for a message that makes no sound.
SILENT = 4096
BACKOFF = ("1m", "5m", "30m")
PERSON = "select * from streaks_person where id = :id"
PROMISED = "select channel from streaks_message where person = :person and day = :day"
PROMISE = """
insert into streaks_message (person, day, channel, job, address, text, promised)
values (:person, :day, :channel, :job, :address, :text, :now)
"""
SENT = """
update streaks_message set state = 'sent', error = null, settled = :now
where person = :person and day = :day and channel = :channel
"""
NOTE = """
update streaks_message set state = :state, error = :error, settled = :now
where job = :job and channel = :channel
"""
PROBLEMS = {
    "discord": "update streaks_person set discord_problem = :e where id = :id",
    "telegram": "update streaks_person set telegram_problem = :e where id = :id",
}
# What a channel's state becomes when its delivery is over.
STATES = {"sent": "sent", "failed": "failed", "unsure": "unsure", "sending": "cancelled"}
# The other side has refused for good: wrong token, deleted hook, blocked bot, no such chat.
REFUSED = frozenset({400, 401, 403, 404})
# A gateway that got no answer cannot tell whether there was an effect.
UNKNOWN = frozenset({502, 504})


def secret_of(what: str, person: str) -> str:
    """The name that a person's token is sealed under."""
    return f"streaks:{what}:{person}"


async def send_discord(to: Send, person: str, text: str, tone: str = "") -> None:
    """Post to the person's webhook, and wait until Discord has stored the message."""
    _refuse_yesterday(to, person)
    hook = to.secret(secret_of("discord", person))
    if part.settings.proxy_url:
        given = {"type": "discord", "webhook": hook, "message": text, **_toned(tone)}
        answer = await relay(given)
    else:
        answer = await _discord(hook, text, tone)
    _settle(to, "discord", person, answer)


def _refuse_yesterday(to: Send, person: str) -> None:
    """A day that is over is not told any more, however long a channel had to wait."""
    said = str(to.arguments["day"])
    if " test " in said:
        return
    day = said[:10]
    rows = part.app.read("select zone from streaks_person where id = :id", id=person)
    if rows and local_day(to.now, rows[0].zone).isoformat() > day:
        raise Fail(f"{day} is over in {rows[0].zone}")


async def _discord(hook: str, text: str, tone: str) -> Answer:
    # Only what we have put there ourselves may call everybody.
    mentions = {"parse": ["everyone"] if tone == "loud" else []}
    more = {"flags": SILENT} if tone == "soft" else {}
    reply = await client(part.settings.discord_url).post(
        f"/api/webhooks/{hook}",
        params={"wait": "true"},
        json={"content": text, "allowed_mentions": mentions, **more},
    )
    return Answer(reply.status, _said(reply, "message"))


async def send_telegram(to: Send, person: str, chat: str, text: str, tone: str = "") -> None:
    """Let the person's bot write to the chat, as plain text: nothing in it is markup."""
    _refuse_yesterday(to, person)
    bot = to.secret(secret_of("telegram", person))
    if part.settings.proxy_url:
        given = {"type": "telegram", "token": bot, "chatId": chat, "message": text}
        answer = await relay({**given, **_toned(tone)})
    else:
        answer = await _telegram(bot, chat, text, tone)
    _settle(to, "telegram", person, answer)


async def _telegram(bot: str, chat: str, text: str, tone: str) -> Answer:
    more = {"disable_notification": True} if tone == "soft" else {}
    reply = await client(part.settings.telegram_url).post(
        f"/bot{bot}/sendMessage", json={"chat_id": chat, "text": text, **more}
    )
    return Answer(reply.status, _said(reply, "description"))


def _toned(tone: str) -> dict[str, str]:
    return {"tone": tone} if tone else {}


def _settle(to: Send, channel: str, person: str, answer: Answer) -> None:
    """Note it with the channel's own outcome: the other channel may take half an hour more."""
    if answer.status in REFUSED:
        error = f"{channel.capitalize()}: {answer.error or answer.status}"[:220]
        to.write(PROBLEMS[channel], id=person, e=error)
        raise Fail(error)
    if answer.status in UNKNOWN:
        words = f"{channel} answered {answer.status}; nobody knows whether it was sent"
        raise http.LostReply(words)
    if not 200 <= answer.status < 300:  # noqa: PLR2004 - success
        raise http.HttpError(f"{channel} answered {answer.status}")
    to.write(SENT, person=person, day=to.arguments["day"], channel=channel, now=to.now)


def _said(reply: http.Response, field: str) -> str:
    try:
        return str(reply.json(dict[str, Any]).get(field, reply.status))[:200]
    except http.HttpError:
        return str(reply.status)


@part.delivery(
    channels={
        "discord": Channel(send_discord, timeout="15s", pace=Rate("40/1s"), unsure="skip"),
        "telegram": Channel(send_telegram, timeout="15s", pace=Rate("25/1s"), unsure="skip"),
    },
    partial="retry-failed",
    retries=len(BACKOFF),
    backoff=BACKOFF,
)
def notify(run: Run, person: str, day: str, text: str, tone: str = "") -> dict[str, dict[str, str]]:
    """Tell a person about a day, by every channel that has not been promised yet.

    A message without a tone is an ordinary one; `soft` makes no sound, `loud` calls everybody there.
    """
    rows = run.read(PERSON, id=person)
    known = {row.channel for row in run.read(PROMISED, person=person, day=day)}
    wanted = {
        name: to for name, to in (addresses(rows[0]) if rows else {}).items() if name not in known
    }
    if not wanted:
        raise Cancel("told already" if known else "there is no channel to tell it by")
    texts = {"discord": f"@here {text}" if tone == "loud" else text, "telegram": text}
    promise = {"person": person, "day": day, "job": run.job.id, "now": run.now}
    run.write(
        PROMISE,
        rows=[
            {**promise, "channel": name, "address": to, "text": texts[name]}
            for name, to in wanted.items()
        ],
    )
    common = {"person": person, "tone": tone}
    payloads = {
        "discord": {**common, "text": texts["discord"]},
        "telegram": {**common, "chat": wanted.get("telegram", ""), "text": text},
    }
    return {name: payloads[name] for name in wanted}


def addresses(person: Any) -> dict[str, str]:
    """Where a person wants to be told, of the channels that have not refused for good."""
    found = {}
    if person.discord_hook and not person.discord_problem:
        found["discord"] = str(person.discord_hook)
    if person.telegram_chat and not person.telegram_problem:
        found["telegram"] = str(person.telegram_chat)
    return found


@notify.settled
def note(tx: Transaction, job: Job[Any], outcome: str) -> None:  # noqa: ARG001 - the channels tell
    """Write down what became of each promise."""
    now = part.app.now()
    for each in notify.channels(job.id):
        error = (each.error or "").partition("\n")[0] or None
        state = STATES[each.state]
        tx.write(NOTE, job=job.id, channel=each.channel, state=state, error=error, now=now)
    tx.touch(TOPIC)
