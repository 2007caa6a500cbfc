"""What the clients of the storms have in common: who they are, what they write down, when they rest."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from contextlib import suppress
from typing import Any

from duework import App
from duework.errors import Error

# Numbers of one client; the next one starts behind them.
SHARE = 100_000
BACKLOG = int(os.environ.get("PROOF_BACKLOG", "150"))


class Client:
    """Made from the arguments NUMBER SEED PAUSE; writes its lines to the file that OPS names."""

    def __init__(self, app: App) -> None:
        number, seed, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
        self._app = app
        self._pause = pause
        self._handle = os.open(os.environ["OPS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self.rng = random.Random(f"{seed} {number}")
        self.numbers = range(number * SHARE, (number + 1) * SHARE)

    def say(self, **line: Any) -> None:
        """With the kernel of the system when this returns."""
        os.write(self._handle, json.dumps(line).encode() + b"\n")

    def rest(self, n: int) -> None:
        time.sleep(self.rng.expovariate(1 / self._pause))
        while n % 10 == 0 and self._backlog() > BACKLOG:
            # More work than the workers can do is no more of a storm, only longer.
            time.sleep(0.5)

    def _backlog(self) -> int:
        with suppress(Error):
            found = self._app.read("select count(*) as n from duework_job where state = 'open'")
            return int(found[0].n)
        return 0
