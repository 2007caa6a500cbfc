"""What can go wrong, as types.

    Error                     base; `code` is a stable slug for HTTP, the command line and logs
    ├── UsageError            the caller's mistake: bad arguments, unknown option, wrong thread
    │   ├── InvalidArguments  arguments that do not fit the task's signature
    │   ├── ObjectTooLarge    a durable object over its limit, nothing was written
    │   ├── PayloadTooLarge   over the limit, nothing was written
    │   └── TaskNotFound      no task of that name in this process
    ├── BadSignature          a webhook that was not signed by who it claims to be from, or long ago
    ├── HttpError             a request to the outside world that came to nothing
    │   ├── BadStatus         the answer is not one of success
    │   ├── LostReply         it went out, and nobody knows what it did
    │   │   └── ReplyTooLarge  the answer is over the limit and was not read
    │   ├── Refused           the guard does not let it go there
    │   └── Unsent            it never went out, so it did nothing
    ├── SecretsError          the key is missing, or does not open what was sealed
    ├── NotFound              no such job, queue, …
    ├── Conflict              the state does not allow it: reviving onto a taken key
    ├── LeaseLost             the job is no longer ours; stop
    ├── JobFailed             the job whose value was asked for has failed; `failure` says why
    ├── JobCancelled          the same, cancelled
    ├── StepFailed            a step of a workflow, or a job that one waits for, has failed
    ├── WaitTimeout           the job had not settled in time; it goes on
    └── DatabaseError         the database failed; the cause is in __cause__
        ├── Unavailable       could not be reached or written in time; try again
        │   └── Unknown       a commit failed, and it is not known whether it happened
        ├── Gone              the file or its log was deleted or replaced under us; stop
        └── SchemaMismatch    the schema and this code do not fit; migrate or upgrade

Outcomes are not errors: see `kernel.outcomes`. Drivers' exceptions never leave `db/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duework.kernel.failures.failure import Failure


def check_one_of(what: str, given: str, known: Iterable[str], *, optional: bool = False) -> None:
    """Refuse a word that is none of these, and name the one that was probably meant."""
    words = list(known)
    if given in words or (optional and not given):
        return
    raise UsageError(f"there is no {what} {given!r:.100}{meant(given, words)}")


def meant(given: str, known: Sequence[str]) -> str:
    """'; did you mean …?' or else what there is."""
    # Needed after a mistake only.
    from difflib import get_close_matches

    if near := get_close_matches(given, known, 1):
        return f"; did you mean {near[0]!r}?"
    return f"; there is {', '.join(known[:20])}" if known else ""


class Error(Exception):
    """Something Duework was asked to do could not be done."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class UsageError(Error):
    """The call itself is mistaken; nothing was written."""

    code = "usage"


class InvalidArguments(UsageError):
    """The arguments do not fit the task's signature; nothing was written."""

    code = "invalid_arguments"


class ObjectTooLarge(UsageError):
    """The database of a durable object is over the limit; nothing was written."""

    code = "object_too_large"


class PayloadTooLarge(UsageError):
    """The encoded payload is over the limit; nothing was written."""

    code = "payload_too_large"


class TaskNotFound(UsageError):
    """This process knows no task of that name."""

    code = "task_not_found"


class BadSignature(Error):
    """The webhook was not signed by the sender that it names, or too long ago."""

    code = "bad_signature"


class HttpError(Error):
    """A request to the outside world came to nothing."""

    code = "http"


class BadStatus(HttpError):
    """The other side answered, but not with success."""

    code = "http_status"


class LostReply(HttpError):
    """The request went out and no whole answer came back: nobody knows what it did."""

    code = "lost_reply"


class ReplyTooLarge(LostReply):
    """The answer is larger than the limit and was not read to its end."""

    code = "reply_too_large"


class Refused(HttpError):
    """The guard does not let requests go to such an address."""

    code = "refused"


class Unsent(HttpError):
    """The other side could not be reached: the request never went out and did nothing."""

    code = "unsent"


class SecretsError(Error):
    """The key for the secrets is missing, or does not open what was sealed."""

    code = "secrets"


class NotFound(Error):
    """There is no such thing in the database."""

    code = "not_found"


class Conflict(Error):
    """The present state does not allow it."""

    code = "conflict"


class LeaseLost(Error):
    """The job is no longer held by this worker; nothing of this attempt is written."""

    code = "lease_lost"


class JobFailed(Error):
    """The job has failed, so there is no result."""

    code = "job_failed"

    def __init__(self, message: str = "", failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


class JobCancelled(Error):
    """The job was cancelled, so there is no result."""

    code = "job_cancelled"


class StepFailed(Error):
    """A step has failed, more often than it may; what it raised is in __cause__ the first time."""

    code = "step_failed"


class WaitTimeout(Error, TimeoutError):
    """The job has not settled in the time given; it goes on in the background."""

    code = "wait_timeout"


class DatabaseError(Error):
    """The database failed."""

    code = "database"


class Unavailable(DatabaseError):
    """The database could not be reached or written in time; nothing was written."""

    code = "unavailable"


class Unknown(Unavailable):
    """A commit failed and it cannot be decided whether it happened."""

    code = "unknown_commit"


class Gone(DatabaseError):
    """The database file, or its log, was deleted or replaced while it was open."""

    code = "gone"


class SchemaMismatch(DatabaseError):
    """The database's schema and this version of Duework do not fit together."""

    code = "schema_mismatch"
