"""The page: the score large, six things to break, what happened."""

from __future__ import annotations

import asyncio
from typing import Any

from duework import Template
from systems.demo import chaos
from systems.demo.part import kept, newest, part
from systems.demo.receivers import Receivers
from systems.demo.score import SENDERS

SHOWN = 14
# What must not be, wherever it is; messages to people are counted for the rest.
LOSSES = {"lost", "twice"}


def _receivers() -> Receivers:
    return Receivers(part.settings.twins)


@part.page("/", title="Break it", icon="chaos", live=("demo",))
def front() -> Template:
    """How it stands, as the director last counted."""
    app = part.app
    lines: list[dict[str, Any]] = kept(app, "score", [])
    people = [line for line in lines if line["system"] in SENDERS]
    total = {
        name: sum(line[name] for line in (lines if name in LOSSES else people))
        for name in ("promised", "delivered", "lost", "twice", "unsure", "failed", "on_the_way")
    }
    return Template(
        "demo.html",
        lines=lines,
        total=total,
        recovery=kept(app, "recovery"),
        kills=kept(app, "kills", 0),
        lost_replies=kept(app, "lost_replies", 0),
        down={name: kept(app, f"down:{name}", default=False) for name in ("discord", "resend")},
        log=newest(app, SHOWN),
        workers=len(chaos.workers(app)),
        now=app.now(),
    )


@part.action("/kill")
async def kill() -> str:
    """Kill a worker, and say how long its jobs were without one."""
    return await asyncio.to_thread(chaos.kill_and_watch, part.app)


@part.action("/freeze")
def freeze() -> str:
    return chaos.freeze_worker(part.app)


@part.action("/down/{name}")
def down(name: str) -> str:
    """Down if it is up, up if it is down."""
    now = not kept(part.app, f"down:{name}", default=False)
    chaos.provider(part.app, _receivers(), name, down=now)
    return f"{name} is {'down' if now else 'back'}"


@part.action("/lose")
def lose() -> str:
    chaos.lose_replies(part.app, _receivers(), "acs", "send", 10)
    return "The next ten mails arrive, and their replies do not"


@part.action("/storm")
def storm() -> str:
    chaos.storm(part.app, _receivers())
    return "Every call is refused for a while"
