"""The program whose pages the browser tests look at: `duework web tests.browser.program:app`.

As a command it acts from a process of its own: `python -m tests.browser.program seed`, `… enqueue KEY`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from duework import App, OAuth, OAuthGrant, Part, Secret
from tests.web.club import with_club
from tests.web.records import Records
from tests.web.shapes import Letter, Shapes

# Where nobody is asked by these tests.
ACCOUNTS = {"authorize_url": "https://accounts.test/", "token_url": "https://accounts.test/token"}
ACCOUNTS["client_id"] = "duework"
app = App()
with_club(app)
shapes = Shapes(app)
records = Records(app)
crew = Part("crew")


@crew.oauth(lambda: OAuth(name="GitHub", **ACCOUNTS, client_secret=Secret("none")))
async def whose(grant: OAuthGrant) -> str | None:
    return str(grant.answer.get("email"))


app.include(crew)
LONGEST = "x" * 128


@app.task
async def greet(name: str) -> str:
    return f"hello {name}"


@app.task(queue="mail", name=f"fails{'_' * 40}a_long_name")
async def fails(text: str) -> None:
    raise ValueError(text)


@app.task(retries=1, backoff=("1h",))
async def retries() -> None:
    raise ValueError("try again")


def seed() -> dict[str, Any]:
    """Jobs of every phase, and where they are."""
    failed = [fails.using(key=f"user:{number}").enqueue("no way").id for number in range(4)]
    retries.enqueue()
    fails.using(key=LONGEST).enqueue("no" * 600)
    fails.using(key="مرحبا 🎈 <b>bold</b>").enqueue("<script>alert(1)</script>")
    done = greet.enqueue("ada").id
    asyncio.run(app.worker().run_until_idle())
    waiting = greet.using(delay="1h", key="user:1").enqueue("bob")
    after = greet.using(after=waiting).enqueue("eve")
    fails.using(key="user:9").enqueue("behind the pause")
    app.pause("mail")
    # Older than the one that `shapes.seed` finds, and sent with it.
    arrived = shapes.mail.using(key="order-lost-too").enqueue(Letter("lost", "hello")).id
    found = {"arrived": arrived, **shapes.seed(), **records.seed(), **more()}
    return {**found, "failed": failed[0], "done": done, "waiting": waiting.id, "after": after.id}


def more() -> dict[str, Any]:
    """What actions are pressed on that can be pressed once only."""
    resent, given_up = (shapes.notify.enqueue("lost").id for _ in range(2))
    asyncio.run(app.worker().run_until_idle())
    queued = shapes.mail.using(key="order-queued").enqueue(Letter("eve@example.org", "hello")).id
    [bad] = [each.id for each in app.chains() if each.key == "athlete:13"]
    ids = {"resent": resent, "given_up": given_up, "queued": queued}
    return {**ids, "bad_chain": bad}


def enqueue(key: str) -> dict[str, int]:
    return {"id": greet.using(key=key, delay="1h").enqueue("ada").id}


def shake(number: str) -> dict[str, int]:
    """Something of every new shape changes."""
    with records.llm.reserve("0.01", note=f"shaken {number}"):
        pass
    app.metrics.add("sold", 1, shaken=number)
    app.metrics.flush()
    return {"event": app.publish("shipped", f"shaken {number}")}


def cancel(job: str) -> dict[str, int]:
    app.get_workflow(int(job)).cancel("no longer wanted")
    return {}


if __name__ == "__main__":
    acts: dict[str, Any] = {"seed": seed, "enqueue": enqueue, "shake": shake}
    acts["cancel"] = cancel
    act = acts[sys.argv[1]]
    sys.stdout.write(json.dumps(act(*sys.argv[2:])))
    app.close()
