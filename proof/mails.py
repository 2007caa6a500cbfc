"""Mails by three providers at once, over HTTP and SMTP: replies are lost, requests hang, workers die."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from duework import App, OutboxHandle
from duework.testing import Harness
from proof.section import Result, Scale, Section, tell
from systems.mailroom import blobs
from systems.mailroom.mail import Mail, NewMessage
from systems.mailroom.outbox import MailOutbox, box, outbox
from systems.mailroom.part import part
from systems.mailroom.posting import post_many
from systems.mailroom.providers.acs import Acs, operation_id
from systems.mailroom.providers.smtp import message_id
from systems.mailroom.settings import Settings
from systems.mailroom.tries import Tries
from systems.twins import Twins, twins

COUNTS: dict[Scale, int] = {"short": 200, "full": 5000}
TENANTS = ("acme", "birch", "cedar")
WINDOW, WINDOW_MS = 40, 60_000
TICK, TICK_MS = 15, 10_000
FAULTS: dict[str, list[dict[str, Any]]] = {
    "acs": [
        {"route": "send", "calls": "4%", "do": "drop_after"},
        {"route": "send", "calls": "3%", "do": "status", "status": 500},
        {"route": "send", "calls": "1%", "do": "status", "status": 429},
        {"route": "send", "calls": "1%", "do": "never", "effect": True},
        {"route": "poll", "calls": "8%", "do": "status", "status": 503},
        {"route": "poll", "calls": "2%", "do": "drop_before"},
    ],
    "resend": [
        {"route": "emails.send", "calls": "4%", "do": "drop_after"},
        {"route": "emails.send", "calls": "3%", "do": "status", "status": 500},
        {"route": "emails.send", "calls": "1%", "do": "status", "status": 429},
        {"route": "emails.send", "calls": "1%", "do": "never"},
    ],
    "smtp": [
        {"route": "data", "calls": "3%", "do": "drop_after"},
        {"route": "data", "calls": "2%", "do": "drop_before"},
        {"route": "rcpt", "calls": "5%", "do": "status", "status": 450},
    ],
}


class Post:
    """The mailroom itself on ACS, by its tenants, and an outbox each on Resend and SMTP."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.places: dict[str, Settings] = {
            "resend": Settings(provider="resend", window=f"{WINDOW}/1m"),
            "smtp": Settings(provider="smtp"),
        }
        self.boxes: dict[str, OutboxHandle[Mail]] = {"acs": box}
        self.outboxes: list[MailOutbox] = [outbox]
        for name in self.places:
            self._add(name)

    def _add(self, name: str) -> None:
        made = MailOutbox(lambda: self.places[name], self.app.now, Tries(_app), blobs.load)
        self.boxes[name] = self.app.outbox(name, made)
        self.outboxes.append(made)

    def lead_to(self, t: Twins) -> None:
        host, port = t.smtp.address
        found = {"resend": t.resend.url, "smtp": f"smtp://{host}:{port}"}
        self.places = {
            name: msgspec.structs.replace(each, endpoint=found[name])
            for name, each in self.places.items()
        }
        part._settings = Settings(endpoint=t.acs.url, daily_limit=1_000_000)
        for each in self.outboxes:
            for provider in each.chain:
                # A twin that never answers is waited for so long.
                if provider.name != "smtp":
                    provider.client()._timeout = 0.3

    def fill(self, count: int) -> None:
        third = count // 3
        for place, tenant in enumerate(TENANTS):
            numbers = range(place, count - 2 * third, len(TENANTS))
            for some in _in_tens(list(numbers)):
                post_many(self.app, tenant, [(f"order-{n}", _new(n)) for n in some])
        for name in ("resend", "smtp"):
            for number in range(third):
                tenant = TENANTS[number % len(TENANTS)]
                enqueue = self.boxes[name].using(key=f"{tenant}:{name}-{number}", lane=tenant)
                enqueue.enqueue(_mail(tenant, number))


def _app() -> App:
    return part.app


def _in_tens(numbers: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(numbers), 10):
        yield numbers[start : start + 10]


def _new(number: int) -> NewMessage:
    return NewMessage(to=f"p{number}@demo.example", subject=f"Order {number}", text="Hi")


def _mail(tenant: str, number: int) -> Mail:
    facts: dict[str, Any] = {"subject": f"Order {number}", "text": "Hi"}
    return Mail(
        tenant=tenant, sender="me@mail.demo.example", to=(f"p{number}@demo.example",), **facts
    )


@contextmanager
def room(seed: int) -> Iterator[tuple[Post, Harness, Twins]]:
    app = App()
    app.include(part)
    made, before = Post(app), part.settings
    with Harness(app) as h, twins(h.clock, "acs", "resend", "smtp") as t:
        t.acs.set_plan("raised")
        t.resend.set_limits(10_000, 1_000_000, 10_000_000)
        for twin in t.all:
            twin.faults.set(FAULTS[twin.name], seed)
        try:
            made.lead_to(t)
            yield made, h, t
        finally:
            part._settings = before


def run(scale: Scale, seed: int) -> Result:
    result = Result(seed=seed)
    count = COUNTS[scale]
    with room(seed) as (made, h, t):
        made.fill(count)
        result.counts["mails"] = count
        result.counts["workers that died"] = live(h, random.Random(seed), count)
        judge(made, t, result)
    result.floors = {"workers that died": 20, "acs: sent": count // 4, "smtp: sent": count // 6}
    result.planted["a new key for every submit"] = _finds_new_keys(seed)
    result.not_promised.append(
        "SMTP takes no key: what was handed over and not answered is unsure and stays so until"
        " somebody decides."
    )
    return result


def live(h: Harness, draw: random.Random, count: int) -> int:
    """Until nothing moves any more; a worker dies now and then, another one begins."""
    kills = 0
    for step in range(count // 4):
        tell("steps", step, count // 4)
        due = h.drain() if step % 3 else None
        if due is not None and h.now < due < h.now + 3_600_000:
            h.clock.move_to(due)
        kills += h.crash_worker(at=draw.randrange(1, 40))
    h.advance("26h")
    return kills


def judge(made: Post, t: Twins, result: Result) -> None:
    names: dict[str, Callable[[str], str]] = {
        "acs": operation_id,
        "resend": str,
        "smtp": message_id,
    }
    ledgers = {twin.name: twin.ledger.counts("key") for twin in t.all}
    for name, handle in made.boxes.items():
        for message in _all(handle):
            result.count(f"{name}: {message.state}")
            if message.state not in {"sent", "failed", "unsure"}:
                result.violations.append(f"{name} {message.key} is still {message.state}")
            copies = ledgers[name].get(names[name](message.key), 0)
            if copies > 1 or (message.state == "sent" and copies != 1):
                text = f"{name} {message.key}: {message.state}, {copies} at the receiver"
                result.violations.append(text)
            if name != "smtp" and message.state != "sent":
                result.violations.append(f"{name} {message.key}: {message.state}, {message.error}")
        known = {names[name](each.key) for each in _all(handle)}
        result.violations.extend(
            f"{name}: {each} was posted by nobody" for each in sorted(ledgers[name].keys() - known)
        )
    _judge_windows(t, result)


def _judge_windows(t: Twins, result: Result) -> None:
    """By the receivers' own clocks: every stretch of a window's length that begins with a request."""
    windows = (("acs", "send", TICK, TICK_MS), ("resend", "emails.send", WINDOW, WINDOW_MS))
    for name, route, most, length in windows:
        twin = next(each for each in t.all if each.name == name)
        times = sorted(each.at for each in twin.log.of(route))
        found = most_in(times, length)
        result.counts[f"{name}: most in {length // 1000} s"] = found
        if found > most:
            result.violations.append(f"{name}: {found} requests in {length} ms, {most} are allowed")


def most_in(times: Sequence[int], length: int) -> int:
    """The most of these times in any stretch of that length."""
    most = begin = 0
    for place, at in enumerate(times):
        while times[begin] <= at - length:
            begin += 1
        most = max(most, place - begin + 1)
    return most


def _all(handle: OutboxHandle[Mail]) -> Iterator[Any]:
    last = 2**62
    while page := handle.messages(before=last, limit=500):
        last = page[-1].id
        yield from page


def _finds_new_keys(seed: int) -> bool:
    """The section must say that mails are there which nobody posted, or twice."""
    found, submit, draw = Result(), Acs.submit, random.Random(seed)

    async def wrong(self: Acs, mail: Mail, key: str) -> Any:
        return await submit(self, mail, f"{key}-{draw.random()}")

    Acs.submit = wrong  # type: ignore[method-assign]
    try:
        with room(seed) as (made, h, t):
            post_many(made.app, "acme", [(f"order-{n}", _new(n)) for n in range(40)])
            h.advance("1h")
            judge(made, t, found)
    finally:
        Acs.submit = submit  # type: ignore[method-assign]
    return bool(found.violations)


SECTION = Section(
    name="mails",
    title="Mails by three providers",
    promise=(
        "Whatever replies are lost and whichever worker dies, ACS and Resend have one mail for each key"
        " and SMTP at most one, every message ends, and no window is exceeded at the receiver."
    ),
    run=run,
)
