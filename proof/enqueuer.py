"""A client of the storms: enqueues until it is killed, and writes down what it was told.

`python -m proof.enqueuer NUMBER SEED PAUSE`. Every line is with the kernel before the next thing is done:
first what is going to be asked for, then the answer. No answer means that nobody knows.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from contextlib import suppress
from typing import Any

from duework.errors import Error, Unavailable, Unknown
from proof import program, tasks

# Numbers of one enqueuer; the next one starts behind them.
SHARE = 100_000
BACKLOG = int(os.environ.get("PROOF_BACKLOG", "150"))


def say(handle: int, **line: Any) -> None:
    os.write(handle, json.dumps(line).encode() + b"\n")


def main() -> None:
    number, seed, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    rng = random.Random(f"{seed} {number}")
    handle = os.open(os.environ["OPS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    lease = float(program.LEASE.removesuffix("ms")) / 1000
    for n in range(number * SHARE, (number + 1) * SHARE):
        name, arguments, options = tasks.draw(rng, n, lease)
        say(handle, n=n, kind="info", key=options.get("key"))
        kind, job = ask(tasks.known[name].using(**options), arguments, repeat="once" in options)
        say(handle, n=n, kind=kind, key=options.get("key"), job=job)
        if job is not None and rng.random() < 0.03:
            with suppress(Unavailable):
                program.app.cancel(job)
        time.sleep(rng.expovariate(1 / pause))
        while n % 10 == 0 and backlog() > BACKLOG:
            # More work than the workers can do is no more of a storm, only longer.
            time.sleep(0.5)


def backlog() -> int:
    with suppress(Error):
        found = program.app.read("select count(*) as n from duework_job where state = 'open'")
        return int(found[0].n)
    return 0


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
