"""A client of the storms: enqueues until it is killed, and writes down what it was told.

`python -m proof.enqueuer NUMBER SEED PAUSE`. Every line is with the kernel before the next thing is done:
first what is going to be asked for, then the answer. No answer means that nobody knows.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from duework.errors import Unavailable, Unknown
from proof import program, tasks
from proof.client import Client


def main() -> None:
    client = Client(program.app)
    rng, lease = client.rng, float(program.LEASE.removesuffix("ms")) / 1000
    for n in client.numbers:
        name, arguments, options = tasks.draw(rng, n, lease)
        client.say(n=n, kind="info", key=options.get("key"))
        kind, job = ask(tasks.known[name].using(**options), arguments, repeat="once" in options)
        client.say(n=n, kind=kind, key=options.get("key"), job=job)
        if job is not None and rng.random() < 0.03:
            with suppress(Unavailable):
                program.app.cancel(job)
        client.rest(n)


def ask(call: Any, arguments: tuple[Any, ...], *, repeat: bool) -> tuple[str, int | None]:
    """Enqueue; with a key that is good for ever, an unknown answer may simply be repeated."""
    unsure = False
    while True:
        try:
            return "ok", call.enqueue(*arguments).id
        except Unknown:
            unsure = True
            if not repeat:
                return "info", None
        except Unavailable:
            return "info" if unsure else "fail", None


if __name__ == "__main__":
    main()
