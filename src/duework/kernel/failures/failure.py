"""What a job failed by, read back from the text that was stored of it."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass

from duework.kernel.error_text import AT, CAUSED, CLASS

_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: stored bounded and without secrets."""

    # The exception's class, as `builtins.KeyError`; None if nothing was raised: the task said `Fail`,
    # it ran out of time, or its process died.
    type: str | None
    message: str
    # Where it was raised, innermost call last; lines as `at shop.py:7 in charge`.
    traceback: tuple[str, ...] = ()
    # What it was raised from.
    cause: Failure | None = None

    def __str__(self) -> str:
        """Its class and message, as the stored text begins."""
        if self.type is None:
            return self.message
        name = self.type.rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name


def read_failure(text: str) -> Failure:
    """The failure that `error_text.describe` or `decided` made this text of, or a plain reason."""
    first, *causes = text.split(f"\n{CAUSED}")
    cause: Failure | None = None
    for each in reversed(causes):
        cause = _one(each, cause)
    return _one(first, cause)


def _one(text: str, cause: Failure | None) -> Failure:
    lines = text.split("\n")
    trace = tuple(line.strip() for line in lines if line.startswith(AT))
    said = [line for line in lines if not line.startswith((AT, CLASS))]
    named = next((line.removeprefix(CLASS) for line in lines if line.startswith(CLASS)), None)
    head, _, message = said[0].partition(": ")
    if named is None and trace and _is_builtin(head):
        named = f"builtins.{head}"
    if named is None:
        return Failure(None, "\n".join(said), trace, cause)
    return Failure(named, "\n".join([message, *said[1:]]), trace, cause)


def _is_builtin(name: str) -> bool:
    found = getattr(builtins, name, None) if _NAME.fullmatch(name) else None
    return isinstance(found, type) and issubclass(found, BaseException)
