"""Several processes of `duework run`: started, replaced when they die, stopped together.

The supervisor knows nothing of jobs. A child is told to stop by the kernel if the supervisor is killed;
it is in a process group of its own, so that Ctrl-C on a terminal reaches it once, through here.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence

from duework.cli.base import GONE, INTERRUPTED, OK, RECYCLED, USAGE
from duework.clock import monotonic
from duework.observe import log

Command = Sequence[str]

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
# A child that lived for so long is not in a crash loop.
STABLE_SECONDS = 60.0
# Another child would end in the same way.
FINAL = {GONE, USAGE}


class Supervisor:
    """Keeps a number of children running until told to stop."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self.exit_code = OK

    async def run(self, count: int) -> int:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, self._signalled, each)
        await asyncio.gather(*(self._keep(number) for number in range(1, count + 1)))
        return self.exit_code

    def _signalled(self, which: signal.Signals) -> None:
        if which == signal.SIGINT and self.exit_code == OK:
            self.exit_code = INTERRUPTED
        self._stop(which)

    def _stop(self, which: signal.Signals) -> None:
        self._stopping.set()
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(which)

    async def _keep(self, number: int) -> None:
        """One place: whoever holds it is replaced until all stop."""
        failures = 0
        while not self._stopping.is_set():
            born = monotonic()
            child = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, process_group=0
            )
            self._children[number] = child
            if self._stopping.is_set():
                # The signal came while it was being started, and missed it.
                child.send_signal(signal.SIGTERM)
            log.report(log.ChildStarted(number, child.pid))
            code = await child.wait()
            del self._children[number]
            if self._stopping.is_set():
                return
            failures = 0 if monotonic() - born > STABLE_SECONDS else failures + 1
            delay = self._after(code, failures)
            log.report(log.ChildEnded(number, child.pid, code, delay))
            if delay is None:
                self.exit_code = code
                self._stop(signal.SIGTERM)
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)

    @staticmethod
    def _after(code: int, failures: int) -> float | None:
        """Seconds until the next one; None if there shall be no next."""
        if code in FINAL:
            return None
        if code == RECYCLED:
            return 0.0
        doubled = FIRST_DELAY * float(2 ** min(max(0, failures - 1), 10))
        return min(doubled, LONGEST_DELAY)


async def supervise(command: Command, count: int) -> int:
    return await Supervisor(command).run(count)
