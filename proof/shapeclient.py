"""A client of the storms of shapes: starts work of every shape until it is killed.

`python -m proof.shapeclient NUMBER SEED PAUSE`. As in `enqueuer.py`, every line is with the kernel before
the next thing is done: first what is asked for (`info`), then the answer (`ok`). No answer, or an error,
means that nobody knows.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

from duework.errors import Conflict, Error
from proof import shapeprogram
from proof.client import Client
from proof.shapework import KEYS, LANES, Ledger, Message, known

app = shapeprogram.app
MOODS = ("plain", "plain", "late", "lost", "refused")
SHAPES = (
    *("batch", "chain", "chain", "notify", "mail", "slip", "undone", "paced", "add", "add", "add"),
    *("visit", "call"),
)


class Undone(Exception):
    """Raised to roll a transaction back."""


class Asking(Client):
    """One process that asks for things of every shape."""

    def batch(self, n: int) -> dict[str, Any]:
        rng = self.rng
        moods = rng.choices(["plain", "plain", "plain", "flaky", "doomed"], k=rng.randrange(9))
        items = [(each, mood) for each, mood in enumerate(moods)]
        made = app.batch(known["member"], items, key=f"b{n}", then=known["closing"], keep=None)
        if rng.random() < 0.15:
            time.sleep(rng.uniform(0, 0.2))
            made.cancel()
        return {"id": made.id, "key": f"b{n}"}

    def chain(self, n: int) -> dict[str, Any]:
        """One lane of numbers; some are cancelled, and most of those go on."""
        rng = self.rng
        found = known["walk"].start(lane=n % LANES, last=rng.randrange(1, 30))
        for _ in range(rng.choice([0, 4])):
            time.sleep(rng.uniform(0, 0.1))
            answer = found.cancel("to see what happens")
            time.sleep(rng.uniform(0, 0.1))
            with suppress(Conflict):
                found.resume()
            if answer != "cancelled":
                # A page was running meanwhile, or it was over.
                break
        return {"id": found.id}

    def notify(self, n: int) -> dict[str, Any]:
        return {"id": known["notify"].enqueue(n, self.rng.choice(MOODS)).id}

    def mail(self, n: int, box: str = "mail") -> dict[str, Any]:
        message = Message(n, self.rng.choice(MOODS))
        return {"id": known[box].using(key=f"m{n}").enqueue(message).id}

    def slip(self, n: int) -> dict[str, Any]:
        return self.mail(n, "slip")

    def undone(self, n: int) -> dict[str, Any]:
        """Messages of a transaction that is rolled back."""
        with suppress(Undone), app.transaction() as tx:
            tx.submit(known["mail"].using(key=f"m{n}"), Message(n, "plain"))
            tx.submit(known["slip"].using(key=f"m{n}"), Message(n, "plain"))
            raise Undone
        return {}

    def paced(self, n: int) -> dict[str, Any]:
        jobs = known["paced"].enqueue_many([(n,) for _ in range(self.rng.randrange(5, 30))])
        return {"jobs": len(jobs)}

    def add(self, n: int) -> dict[str, Any]:
        key = f"k{n % KEYS}"
        call = app.object(Ledger, key).add(f"n {n}", self.rng.random() < 0.3)
        return {"answer": call.result(), "key": key, "value": f"n {n}"}

    def visit(self, n: int) -> dict[str, Any]:
        app.object(Ledger, f"k{n % KEYS}").visit(f"n {n}").result()
        return {}

    def call(self, n: int) -> dict[str, Any]:
        """The same from inside a worker."""
        known["call"].enqueue(f"k{n % KEYS}", self.rng.choice(["add", "ring", "visit"]))
        return {}


def main() -> None:
    client, wanted = Asking(app), os.environ.get("PROOF_SHAPES", "").split(",")
    shapes = [each for each in SHAPES if wanted == [""] or each in wanted]
    # Every shape once, and then as it comes.
    first = client.rng.sample(shapes, len(shapes))
    for n in client.numbers:
        shape = first.pop() if first else client.rng.choice(shapes)
        line = {"n": n, "shape": shape, "begun": time.monotonic_ns()}
        client.say(**line, kind="info")
        answer: dict[str, Any] = {}
        try:
            answer, kind = getattr(client, shape)(n), "ok"
        except Error as error:
            # A step after the first may have failed: what was asked for may be there.
            kind, answer = "info", {"error": repr(error)}
        client.say(**line, kind=kind, ended=time.monotonic_ns(), **answer)
        client.rest(n)


if __name__ == "__main__":
    main()
