"""A task with a process of its own that uses a secret, and a program that seals many."""

from __future__ import annotations

import asyncio
import os

from duework import App, NotFound, Run, SecretsError

app = App(os.environ.get("SEALING_URL"), processes=1)


@app.task(isolation="process", keep="1d")
def use(run: Run, name: str) -> int:
    # It may ask for secrets, one at a time; the key to all of them stays with its worker.
    assert not {"DUEWORK_KEY", "DUEWORK_KEY_FILE"} & os.environ.keys()
    return len(run.secret(name))


@app.task(isolation="process", retries=0)
def leak(run: Run) -> None:
    raise ValueError(f"could not log in with {run.secret('pat:7')}")


@app.task(isolation="process", keep="1d")
def miss(run: Run) -> str:
    try:
        run.secret("nobody")
    except NotFound as error:
        return str(error)
    except SecretsError:
        return "wrong"
    return "found"


async def work() -> None:
    async with app.running():
        used, leaked, missed = use.enqueue("pat:7"), leak.enqueue(), miss.enqueue()
        print((await used.await_(timeout="1m")).result)  # noqa: T201
        print((await missed.await_(timeout="1m")).result)  # noqa: T201
        print((await leaked.await_(timeout="1m")).error)  # noqa: T201


def main() -> None:
    asyncio.run(work())
    app.close()


def seal(first: int, last: int) -> None:
    for number in range(first, last):
        app.secrets.seal(f"pat:{number}", f"token-of-{number}")
    app.close()
