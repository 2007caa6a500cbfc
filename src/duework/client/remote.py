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
from typing import Any
from urllib.parse import quote

from duework.averbs import averb
from duework.client.asking import id_text
from duework.client.records import Records
from duework.clock import pause
from duework.durations import Duration
from duework.errors import WaitTimeout
from duework.handles import looks
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
    QueueState,
    Reasons,
    TaskName,
)

# Between two looks at a job that one waits for, in seconds.
_SLOWEST = 1.0
_ENDED = frozenset({"done", "failed", "cancelled"})


class ApiClient(Records):
    """Asks one server, with one token; safe to share between threads."""

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
        return self.ask("POST", "/jobs", Made, body, key=key)

    def job(self, identifier: str | int) -> JobDetail:
        """The job as it is now; `NotFound` if there is none."""
        return self.ask("GET", f"/jobs/{id_text(identifier)}", JobDetail)

    def jobs(self, **wanted: Any) -> Iterator[JobLine]:
        """Jobs by phase, task, queue and key, newest first; read page by page as they are needed."""
        return self.ask_all("/jobs", Listed[JobLine], wanted)

    def why(self, identifier: str | int) -> Reasons:
        """Why it waits, runs or has ended."""
        return self.ask("GET", f"/jobs/{id_text(identifier)}/why", Reasons)

    def attempts(self, identifier: str | int) -> list[AttemptLine]:
        """The attempts that did not end well, oldest first."""
        return self.ask("GET", f"/jobs/{id_text(identifier)}/attempts", Listed[AttemptLine]).items

    def cancel(self, identifier: str | int, why: str = "") -> Acted:
        """End it; one that runs is told to stop."""
        return self.ask("POST", f"/jobs/{id_text(identifier)}/cancel", Acted, {"why": why})

    def retry(self, identifier: str | int) -> Acted:
        """Open it again, due at once."""
        return self.ask("POST", f"/jobs/{id_text(identifier)}/retry", Acted, {})

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
        return self.ask("GET", "/overview", Overview)

    def doctor(self) -> Checks:
        """Whether all of it can be left alone."""
        return self.ask("GET", "/doctor", Checks)

    def tasks(self) -> list[TaskName]:
        """The tasks that can be enqueued there."""
        return self.ask("GET", "/tasks", Listed[TaskName]).items

    def pause(self, queue: str) -> QueueState:
        """Start no more jobs of a queue."""
        return self.ask("POST", f"/queues/{quote(queue, '')}/pause", QueueState, {})

    def resume(self, queue: str) -> QueueState:
        return self.ask("POST", f"/queues/{quote(queue, '')}/resume", QueueState, {})

    # --- shapes

    def start_batch(
        self, /, task: str, items: Sequence[Any], *, key: str | None = None, **options: Any
    ) -> Made:
        """One job for each item; options are name, then, queue, priority."""
        body = {"task": task, "items": list(items), **options}
        return self.ask("POST", "/batches", Made, body, key=key)

    def batch(self, identifier: str | int) -> BatchDetail:
        """A batch, and how far it is."""
        return self.ask("GET", f"/batches/{id_text(identifier)}", BatchDetail)

    def batches(self, **wanted: Any) -> Iterator[BatchLine]:
        """Batches, newest first."""
        return self.ask_all("/batches", Listed[BatchLine], wanted)

    def cancel_batch(self, identifier: str | int, why: str = "") -> int:
        """End every member that has not ended; how many."""
        path = f"/batches/{id_text(identifier)}/cancel"
        return self.ask("POST", path, Count, {"why": why}).count

    def start_chain(
        self, /, task: str, arguments: Sequence[Any] | Mapping[str, Any] = (), **options: Any
    ) -> Made:
        """Start a chain; options are key, page_size, delay."""
        given = dict(arguments) if isinstance(arguments, Mapping) else list(arguments)
        return self.ask("POST", "/chains", Made, {"task": task, "arguments": given, **options})

    def chain(self, identifier: str | int) -> ChainLine:
        """A chain, and how far it is."""
        return self.ask("GET", f"/chains/{id_text(identifier)}", ChainLine)

    def schedule(self, key: str) -> ScheduleLine:
        """A schedule, and when it fires next."""
        return self.ask("GET", f"/schedules/{quote(key, '')}", ScheduleLine)

    def schedules(self, prefix: str = "") -> Iterator[ScheduleLine]:
        """Schedules by key."""
        return self.ask_all("/schedules", Listed[ScheduleLine], {"prefix": prefix})

    def submit(
        self, /, outbox: str, message: Any, *, key: str | None = None, **options: Any
    ) -> Made:
        """Queue a message of an outbox; options are lane, priority, delay."""
        path = f"/outboxes/{quote(outbox, '')}/messages"
        return self.ask("POST", path, Made, {"message": message, **options}, key=key)

    def message(self, identifier: str | int) -> MessageLine:
        """A message as it is now."""
        return self.ask("GET", f"/messages/{id_text(identifier)}", MessageLine)

    def outboxes(self) -> list[OutboxLine]:
        """Every outbox that has messages."""
        return self.ask("GET", "/outboxes", Listed[OutboxLine]).items

    def paces(self, prefix: str = "") -> list[PaceLine]:
        """What each pace admits now."""
        return self.ask("GET", "/paces", Listed[PaceLine], query={"prefix": prefix}).items

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
