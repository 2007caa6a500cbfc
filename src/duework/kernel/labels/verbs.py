"""Labels: tags, headers and the latest time of a job, written with it and by nothing else.

Only jobs that carry any cost a statement, and those that replace another. Rows of jobs that are gone are
taken away by the housekeeping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duework.db.database import Tx
from duework.db.queries import load
from duework.kernel.job import NewJob

LABELS = load("duework.kernel.labels", "labels")


def label(tx: Tx, identifier: int, job: NewJob) -> None:
    """A new job carries these."""
    if job.carries:
        values = {"job": identifier, "headers": job.headers, "latest": job.latest}
        tx.query(LABELS.insert, values)
        _tag(tx, identifier, job.tags)


def relabel(tx: Tx, identifier: int, job: NewJob) -> int:
    """A job that waits is replaced by this one; when it is due at the latest."""
    rows = tx.query(LABELS.latest, {"job": identifier})
    if not rows:
        label(tx, identifier, job)
        return job.at
    # The first bound holds, whatever comes after it.
    bound = job.latest if rows[0][0] is None else rows[0][0]
    tx.query(LABELS.relabel, {"job": identifier, "headers": job.headers, "latest": bound})
    tx.query(LABELS.forget_tags, {"ids": [identifier]})
    _tag(tx, identifier, job.tags)
    return job.at if bound is None else min(job.at, bound)


def _tag(tx: Tx, identifier: int, tags: Sequence[str]) -> None:
    for tag in tags:
        tx.query(LABELS.insert_tag, {"job": identifier, "tag": tag})


def forget_gone(tx: Tx, after: int, wanted: int) -> int:
    """Take away labels of jobs that are gone, of the next ones behind a job; where it got, 0 at the end."""
    rows: list[tuple[Any, ...]] = tx.query(LABELS.next_labels, {"after": after, "wanted": wanted})
    gone = [job for job, there in rows if there is None]
    if gone:
        tx.query(LABELS.forget_tags, {"ids": gone})
        tx.query(LABELS.forget, {"ids": gone})
    return int(rows[-1][0]) if len(rows) == wanted else 0
