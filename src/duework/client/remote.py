"""A client of the HTTP API, typed by the same structs: for programs that are not beside the database.

    from duework.client import ApiClient

    work = ApiClient("https://work.example.com", token)
    made = work.enqueue("greet", ["ada"], key="order:7")     # sent again, it makes nothing new
    print(work.wait(made.id).result)

What the API refuses is raised as the error that the same call raises in Python; `aenqueue` and the others
are the same for async code. Where no answer came, `LostReply` says that nobody knows: with a key, ask again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from duework.averbs import averb
from duework.clock import pause
from duework.durations import Duration, milliseconds
from duework.errors import (
    Conflict,
    Error,
    InvalidArguments,
    NotFound,
    PayloadTooLarge,
    TaskNotFound,
    Unavailable,
    UsageError,
    WaitTimeout,
)
from duework.handles import looks
from duework.outside import http
from duework.web.api.shape_types import (
    BatchDetail,
    BatchLine,
    ChainLine,
    Count,
    MessageLine,
    OutboxLine,
    PaceLine,
    ScheduleLine,
)
from duework.web.api.types import (
    Acted,
    AttemptLine,
    Checks,
    JobDetail,
    JobLine,
    Listed,
    Made,
    Overview,
    ProblemDocument,
    QueueState,
    Reasons,
    TaskName,
)

T = TypeVar("T")

TIMEOUT = "10s"
# Between two looks at a job that one waits for, in seconds.
_SLOWEST = 1.0
_ENDED = frozenset({"done", "failed", "cancelled"})


class ApiError(Error):
    """The HTTP API refused it; `problem` says what it said, if it said anything."""

    code = "api"

    def __init__(self, message: str = "", problem: ProblemDocument | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class KeyTaken(Conflict):
    """The key was used for another request."""

    code = "idempotency_key_reused"


_ERRORS: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        *(NotFound, Conflict, KeyTaken, InvalidArguments, PayloadTooLarge, TaskNotFound),
        *(UsageError, Unavailable),
    )
}


class ApiClient:
    """Asks one server, with one token; safe to share between threads."""

    def __init__(
        self, url: str, token: str, *, timeout: Duration = TIMEOUT, **options: Any
    ) -> None:
        headers = {"authorization": f"Bearer {token}"}
        base = f"{url.rstrip('/')}/api/v1"
        self._http = http.Client(base, timeout=timeout, headers=headers, **options)

    def __repr__(self) -> str:
        return f"<ApiClient {self._http!r}>"

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- jobs

    def enqueue(
        self,
        /,
        task: str,
        arguments: Sequence[Any] | Mapping[str, Any] = (),
        *,
        key: str | None = None,
        **options: Any,
    ) -> Made:
        """Make a job; options are queue, priority, delay, at, expires, once, serial, after.

        With a key the same call makes one job, however often it is sent; another call under the same
        key is `KeyTaken`.
        """
        given = dict(arguments) if isinstance(arguments, Mapping) else list(arguments)
        body = {"task": task, "arguments": given, **options}
        return self._ask("POST", "/jobs", Made, body, key=key)

    def job(self, identifier: str | int) -> JobDetail:
        """The job as it is now; `NotFound` if there is none."""
        return self._ask("GET", f"/jobs/{_id(identifier)}", JobDetail)

    def jobs(self, **wanted: Any) -> Iterator[JobLine]:
        """Jobs by phase, task, queue and key, newest first; read page by page as they are needed."""
        return self._all("/jobs", Listed[JobLine], wanted)

    def why(self, identifier: str | int) -> Reasons:
        """Why it waits, runs or has ended."""
        return self._ask("GET", f"/jobs/{_id(identifier)}/why", Reasons)

    def attempts(self, identifier: str | int) -> list[AttemptLine]:
        """The attempts that did not end well, oldest first."""
        return self._ask("GET", f"/jobs/{_id(identifier)}/attempts", Listed[AttemptLine]).items

    def cancel(self, identifier: str | int, why: str = "") -> Acted:
        """End it; one that runs is told to stop."""
        return self._ask("POST", f"/jobs/{_id(identifier)}/cancel", Acted, {"why": why})

    def retry(self, identifier: str | int) -> Acted:
        """Open it again, due at once."""
        return self._ask("POST", f"/jobs/{_id(identifier)}/retry", Acted, {})

    def wait(self, identifier: str | int, timeout: Duration | None = None) -> JobDetail:
        """Wait until it has ended; `WaitTimeout` if that takes longer."""
        for delay in looks(timeout):
            job = self.job(identifier)
            if job.phase in _ENDED:
                return job
            pause(min(delay * 10, _SLOWEST))
        raise WaitTimeout(f"job {identifier} has not settled in {timeout}")

    # --- what is going on

    def overview(self) -> Overview:
        """What needs somebody, and how many jobs of which tasks wait and run."""
        return self._ask("GET", "/overview", Overview)

    def doctor(self) -> Checks:
        """Whether all of it can be left alone."""
        return self._ask("GET", "/doctor", Checks)

    def tasks(self) -> list[TaskName]:
        """The tasks that can be enqueued there."""
        return self._ask("GET", "/tasks", Listed[TaskName]).items

    def pause(self, queue: str) -> QueueState:
        """Start no more jobs of a queue."""
        return self._ask("POST", f"/queues/{quote(queue, '')}/pause", QueueState, {})

    def resume(self, queue: str) -> QueueState:
        return self._ask("POST", f"/queues/{quote(queue, '')}/resume", QueueState, {})

    # --- shapes

    def start_batch(
        self, /, task: str, items: Sequence[Any], *, key: str | None = None, **options: Any
    ) -> Made:
        """One job for each item; options are name, then, queue, priority."""
        body = {"task": task, "items": list(items), **options}
        return self._ask("POST", "/batches", Made, body, key=key)

    def batch(self, identifier: str | int) -> BatchDetail:
        """A batch, and how far it is."""
        return self._ask("GET", f"/batches/{_id(identifier)}", BatchDetail)

    def batches(self, **wanted: Any) -> Iterator[BatchLine]:
        """Batches, newest first."""
        return self._all("/batches", Listed[BatchLine], wanted)

    def cancel_batch(self, identifier: str | int, why: str = "") -> int:
        """End every member that has not ended; how many."""
        path = f"/batches/{_id(identifier)}/cancel"
        return self._ask("POST", path, Count, {"why": why}).count

    def start_chain(
        self, /, task: str, arguments: Sequence[Any] | Mapping[str, Any] = (), **options: Any
    ) -> Made:
        """Start a chain; options are key, page_size, delay."""
        given = dict(arguments) if isinstance(arguments, Mapping) else list(arguments)
        return self._ask("POST", "/chains", Made, {"task": task, "arguments": given, **options})

    def chain(self, identifier: str | int) -> ChainLine:
        """A chain, and how far it is."""
        return self._ask("GET", f"/chains/{_id(identifier)}", ChainLine)

    def schedule(self, key: str) -> ScheduleLine:
        """A schedule, and when it fires next."""
        return self._ask("GET", f"/schedules/{quote(key, '')}", ScheduleLine)

    def schedules(self, prefix: str = "") -> Iterator[ScheduleLine]:
        """Schedules by key."""
        return self._all("/schedules", Listed[ScheduleLine], {"prefix": prefix})

    def submit(
        self, /, outbox: str, message: Any, *, key: str | None = None, **options: Any
    ) -> Made:
        """Queue a message of an outbox; options are lane, priority, delay."""
        path = f"/outboxes/{quote(outbox, '')}/messages"
        return self._ask("POST", path, Made, {"message": message, **options}, key=key)

    def message(self, identifier: str | int) -> MessageLine:
        """A message as it is now."""
        return self._ask("GET", f"/messages/{_id(identifier)}", MessageLine)

    def outboxes(self) -> list[OutboxLine]:
        """Every outbox that has messages."""
        return self._ask("GET", "/outboxes", Listed[OutboxLine]).items

    def paces(self, prefix: str = "") -> list[PaceLine]:
        """What each pace admits now."""
        return self._ask("GET", "/paces", Listed[PaceLine], query={"prefix": prefix}).items

    # --- the same for async code

    aenqueue = averb(enqueue)
    ajob = averb(job)
    awhy = averb(why)
    acancel = averb(cancel)
    aretry = averb(retry)
    await_ = averb(wait)
    aoverview = averb(overview)
    astart_batch = averb(start_batch)
    abatch = averb(batch)
    astart_chain = averb(start_chain)
    achain = averb(chain)
    aschedule = averb(schedule)
    asubmit = averb(submit)
    amessage = averb(message)

    # --- asking

    def _all(self, path: str, kind: Any, wanted: Mapping[str, Any]) -> Iterator[Any]:
        cursor: str | None = ""
        while cursor is not None:
            page = self._ask("GET", path, kind, query={**wanted, "cursor": cursor})
            yield from page.items
            cursor = page.next

    def _ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        headers = {} if key is None else {"idempotency-key": key}
        if body is not None:
            headers["content-type"] = "application/json"
        content = None if body is None else msgspec.json.encode(_plain(body))
        params = {name: value for name, value in (query or {}).items() if value not in ("", None)}
        try:
            answer = self._http.call(
                method, path, params=params or None, headers=headers, content=content
            )
        except http.TooMany as error:
            raise Unavailable("the server asks to be left alone for a while") from error
        if answer.ok:
            found: T = answer.json(kind)
            return found
        raise _refused(answer)


def _plain(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not said; lengths of time as seconds."""
    lengths = ("delay", "expires", "once")
    return {
        name: milliseconds(value) / 1000 if name in lengths and value != "forever" else value
        for name, value in body.items()
        if value is not None
    }


def _refused(answer: http.Response) -> Error:
    """The error that the same call raises in Python; where there is none of that kind, `ApiError`."""
    try:
        problem = msgspec.json.decode(answer.content, type=ProblemDocument)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ApiError(f"the server answered {answer.status}")
    cause = ApiError(f"{problem.status} {problem.code}: {problem.detail}", problem)
    kind = _ERRORS.get(problem.code)
    if kind is None:
        return cause
    made = kind(problem.detail)
    made.__cause__ = cause
    return made


def _id(identifier: str | int) -> str:
    text = str(identifier)
    if not (text.isascii() and text.isdigit()):
        raise NotFound(f"there is nothing with the id {text!r:.50}")
    return text
