"""What the writer is asked for, and how requests of one transaction are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar

from duework.clock import monotonic
from duework.db.database import Retryable, Tx
from duework.db.writer.answers import Waiting
from duework.errors import Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")
Verb = Callable[[Tx, list[Item]], Sequence[Result]]


class Request(Waiting, eq=False):
    """A verb with its items, and later its results or its error."""

    verb: Verb[Any, Any]
    items: list[Any]
    deadline: float | None = None
    # Work that runs already: written down even on the last of the disk.
    essential: bool = False


class AttachedRequest(Request, eq=False, kw_only=True):
    """A request that is attached to the next one that it may share a commit with."""

    beside: Callable[[Request], bool]
    # Called in the event loop; without a value it did not happen.
    then: Callable[[AttachedRequest], None]
    # Whether it was run; once is enough.
    begun: bool = False

    def resolve(self) -> None:
        self.then(self)


def requested(
    verb: Verb[Any, Any], items: list[Any], patience: float | None, *, essential: bool = False
) -> Request:
    deadline = None if patience is None else monotonic() + patience
    return Request(verb, items, deadline, essential or patience is None)


def admitted(group: list[Request], short: str) -> list[Request]:
    """On the reserve of a full disk nothing new is taken on."""
    for request in group:
        if not request.essential:
            request.error = Unavailable(short)
    return [request for request in group if request.essential]


def run_together(tx: Tx, group: Sequence[Request]) -> None:
    """Neighbouring requests of one verb as one call: bound methods of one object are equal."""
    if len(group) == 1:
        group[0].value = group[0].verb(tx, group[0].items)
        return
    for _, same in groupby(group, key=lambda request: request.verb):
        requests = list(same)
        if len(requests) == 1:
            run_together(tx, requests)
            continue
        items = [item for each in requests for item in each.items]
        results = requests[0].verb(tx, items)
        assert len(results) == len(items), "a verb answers each of its items"
        start = 0
        for request in requests:
            request.value = results[start : start + len(request.items)]
            start += len(request.items)


def run_singly(tx: Tx, group: Sequence[Request]) -> None:
    """Each in a savepoint of its own, so that an error is its caller's alone."""
    for request in group:
        try:
            with tx.savepoint():
                request.value = request.verb(tx, request.items)
        except Retryable:
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to this caller alone
            request.error = error
