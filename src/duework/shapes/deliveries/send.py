"""One send of a channel, as the function that sends may see it: its key, secrets, and rows of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duework.db.database import TooSlow, Tx
from duework.errors import Error, UsageError
from duework.kernel.error_text import describe
from duework.kernel.run import Run, Write


class SendWrites:
    """Rows that a send writes with its outcome."""

    def __init__(self) -> None:
        self._rows: list[Write] = []
        self._closed = False

    def add(self, write: Write) -> None:
        if self._closed:
            raise UsageError("this send has ended; nothing can be added to it")
        self._rows.append(write)

    def close(self) -> list[Write]:
        """What there is; no more can be added."""
        self._closed = True
        return self._rows


class Send:
    """Given to a channel's function whose first parameter is annotated `Send`."""

    def __init__(
        self,
        run: Run,
        key: str,
        attempt: int,
        arguments: Callable[[], dict[str, Any]],
        writes: SendWrites,
    ) -> None:
        # The channel's idempotency key: the same over all its sends.
        self.key = key
        # 1 at first, then one more for each send that was begun.
        self.attempt = attempt
        self._run = run
        self._arguments = arguments
        self._writes = writes

    @property
    def now(self) -> int:
        """The time in milliseconds, by the App's clock."""
        return self._run.now

    @property
    def arguments(self) -> dict[str, Any]:
        """What the delivery was enqueued with, by name and typed as its body has it."""
        return self._arguments()

    def secret(self, name: str) -> str:
        """Open a secret that `app.secrets` has sealed; its value is left out of this send's errors."""
        return self._run.secret(name)

    def write(
        self, sql: str, /, rows: Sequence[Mapping[str, Any]] | None = None, **values: Any
    ) -> None:
        """Write with the channel's outcome: when it was sent, or given up by `Fail` or `Cancel`.

        Any other ending discards it: an error, a lost reply, `Retry`, `Snooze` or `Throttled`.
        """
        self._writes.add(Write(sql, values, rows))


def written(tx: Tx, writes: Sequence[Write], error: str | None) -> str | None:
    """Write what a sender asked for; the channel's error, with what went wrong with that.

    What was sent, or refused by the other side, is so whatever becomes of our rows: a write that fails
    takes back the others of its send, and not the outcome.
    """
    try:
        with tx.savepoint():
            for each in writes:
                each(tx)
    except TooSlow:
        raise
    except Error as failure:
        return f"{error or 'it was sent'} (and its own writes failed: {describe(failure)})"
    return error
