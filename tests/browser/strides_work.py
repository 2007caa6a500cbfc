"""Does what waits in the queue of strides, as a worker beside the pages; prints that it has."""

from __future__ import annotations

import asyncio
import sys

from systems.demo.app import app

if __name__ == "__main__":
    asyncio.run(app.worker({"strides"}).run_until_idle())
    sys.stdout.write("true")
    app.close()
