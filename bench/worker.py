"""A worker in a process of its own: opens the database, says so, and works from `go` until `stop`.

The clock of a scenario starts at `go`: neither Python's start nor the imports are measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

from bench import tasks
from bench.statements import Statements


def main() -> None:
    counted = Statements() if os.environ.get("BENCH_STATEMENTS") else None
    # Opens the database, and enqueues the engine's own housekeeping.
    worker = tasks.app.worker()
    say({"ready": os.getpid()})
    sys.stdin.readline()

    def wait_for_stop() -> None:
        for line in sys.stdin:
            if line.strip() == "count":
                say({} if counted is None else counted.told())
            else:
                break
        worker.stop(grace_ms=0)

    threading.Thread(target=wait_for_stop, daemon=True).start()
    asyncio.run(worker.run())
    tasks.app.close()


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
