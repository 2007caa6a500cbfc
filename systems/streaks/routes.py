"""The addresses that a dispatcher calls: process one user, and look how far a batch is.

A `queueId` is the id of a check's job, a `batchId` that of its batch. Processing is the worker's matter; the
call waits for it. A failure of a user is an answer like any other (200), so that a caller goes on.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from duework import Batch, Job, NotFound, Problem, Reply, SharedSecret, WaitTimeout
from systems.streaks.part import part

CRON = SharedSecret(setting="server_secret", header="X-Cron-Secret")
UNSURE = """
select count(*) as n from streaks_message
where person = :person and day = :day and state = 'unsure'
"""
NO_PROGRESS = {"pending": 0, "processing": 0, "completed": 0, "failed": 0, "total": 0}


class ProcessUser(msgspec.Struct, rename="camel"):
    """Which row of which user."""

    queue_id: str | int = ""
    user_id: str = ""


def _process_words(problem: Problem) -> Reply | None:
    if problem.status == 401:  # noqa: PLR2004 - statuses are what this is about
        return Reply(401, {"error": "Unauthorized"})
    if problem.status == 422:  # noqa: PLR2004
        return Reply(400, {"error": "Missing queueId or userId"})
    if problem.status in {400, 500}:
        why = str(problem.error or problem.detail)
        return Reply(500, {"error": "Process user failed", "message": why})
    return None


def _batch_words(problem: Problem) -> Reply | None:
    if problem.status == 401:  # noqa: PLR2004 - as above
        return Reply(401, {"error": "Unauthorized"})
    return Reply(500, {"error": "Failed to get batch progress"}) if problem.status >= 500 else None  # noqa: PLR2004


@part.route("/api/cron/process-user", methods=["POST"], auth=CRON, problem=_process_words)
async def process_user(body: ProcessUser) -> Reply:
    """Wait for one user's check; its outcome, or why there is none yet."""
    if not body.queue_id or not body.user_id:
        return Reply(400, {"error": "Missing queueId or userId"})
    named = {"queueId": str(body.queue_id), "userId": body.user_id}
    job = await _job(body.queue_id)
    if job is None:
        return Reply(404, {"error": "Unknown queueId", **named})
    if job.arguments["person"] != body.user_id:
        return Reply(409, {"error": "The queueId belongs to another userId", **named})
    if job.state != "open":
        return Reply(200, await _answer(job, named, late=True))
    if job.phase == "running":
        return Reply(409, {"error": "Already processing", **named})
    return await _wait(job, named)


async def _job(identifier: str | int) -> Job[Any] | None:
    """A check by its id, which callers send as a text: it is too long for a number of JavaScript."""
    text = str(identifier)
    if not text.isascii() or not text.isdigit() or len(text) > 18:  # noqa: PLR2004 - of 64 bits
        return None
    try:
        job = await part.app.ajob(int(text))
    except NotFound:
        return None
    return job if job.task == "streaks.check" else None


async def _wait(job: Job[Any], named: dict[str, str]) -> Reply:
    if job.phase != "waiting":
        try:
            return Reply(200, await _answer(await job.await_(part.settings.patience), named))
        except WaitTimeout:
            job = await job.arefresh()
    retry_at = datetime.fromtimestamp(job.due / 1000, UTC).isoformat(timespec="seconds")
    return Reply(202, {"pending": True, **named, "retryAt": retry_at})


async def _answer(job: Job[Any], named: dict[str, str], *, late: bool = False) -> dict[str, Any]:
    """What became of it; `late` if that was so before anybody asked."""
    done = job.state == "done"
    answer: dict[str, Any] = {"success": done, **named}
    if job.state == "cancelled":
        answer |= {"skipped": True, "reason": job.error or "Cancelled"}
    elif late:
        answer |= {"skipped": True, "reason": "Already completed" if done else "Already failed"}
    elif not done:
        answer["error"] = (job.error or "").partition("\n")[0] or "Unknown error"
    if await _unsure(job):
        answer["unsure"] = True
    return answer


async def _unsure(job: Job[Any]) -> bool:
    """Whether nobody can tell if a message about that day arrived."""
    given = job.arguments
    rows = await part.app.aread(UNSURE, person=given["person"], day=given["day"])
    return bool(rows[0].n)


@part.route("/api/cron/batch/{batch}", auth=CRON, problem=_batch_words)
async def batch_progress(batch: str) -> dict[str, Any]:
    """How far a batch is; an unknown one has nothing of anything."""
    found = await _batch(batch)
    if found is None:
        return {"batchId": batch, "progress": NO_PROGRESS, "percentage": 0}
    at = await found.aprogress()
    progress = {
        "pending": at.waiting,
        "processing": at.running,
        "completed": at.done,
        # What was left out, since its day was over, will not be done any more either.
        "failed": at.failed + at.cancelled,
        "total": at.total,
    }
    return {"batchId": batch, "progress": progress, "percentage": at.percent}


async def _batch(identifier: str) -> Batch | None:
    if not identifier.isascii() or not identifier.isdigit() or len(identifier) > 18:  # noqa: PLR2004
        return None
    try:
        return await part.app.aget_batch(int(identifier))
    except NotFound:
        return None
