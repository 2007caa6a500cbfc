"""What a task may say instead of returning a value. Return them, or raise them from deep code.

They are values with one mapping in (`worker/runner.py`) and one mapping out (`kernel/settle.py`). They derive
from Exception only so that a helper far below the task can raise one.
"""

from __future__ import annotations

from collections.abc import Callable

from duework.durations import Duration, milliseconds
from duework.errors import LostReply

# What a client raises when a request went out and no answer came: it is not known what it did.
LOST: tuple[type[Exception], ...] = (
    LostReply,
    TimeoutError,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    EOFError,
)


class Outcome(Exception):
    """How an attempt ended, other than with a value or an error."""


class Snooze(Outcome):
    """Run again after a while; no failure is counted."""

    def __init__(self, after: Duration) -> None:
        self.after_ms = milliseconds(after)
        super().__init__(f"snoozed for {after}")


class BudgetSpent(Snooze):
    """Not enough is left of a budget: run again when its period turns, or once it is raised."""

    def __init__(
        self, why: str, after_ms: int = 0, waits: Callable[..., None] | None = None
    ) -> None:
        super().__init__(0)
        self.after_ms = after_ms
        self.args = (why,)
        # Called with the transaction of the settle, and the job.
        self.waits = waits


class Retry(Outcome):
    """Count a failure, and run again after a delay of its own."""

    def __init__(self, after: Duration | None = None, why: str = "") -> None:
        self.after_ms = None if after is None else milliseconds(after)
        self.why = why
        super().__init__(why or "asked to be retried")


class Misfit(Outcome):
    """What is stored does not fit this version of the code; for shapes, which store data of their own."""


class Fail(Outcome):
    """Give up now, whatever retries are left."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        super().__init__(why or "failed")


class FailedPart(Fail):
    """For shapes: this job has failed, and the one that it belongs to decides whether it is tried again."""


class Cancel(Outcome):
    """End as cancelled: the work is no longer wanted."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        super().__init__(why or "cancelled")


class Throttled(Outcome):
    """The other side said to slow down: put off, its pace blocked, no failure counted."""

    def __init__(self, retry_after: Duration = "1m") -> None:
        self.after_ms = milliseconds(retry_after)
        super().__init__(f"throttled for {retry_after}")
