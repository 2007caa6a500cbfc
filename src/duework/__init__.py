"""Durable background work: every piece of work is a row with a due time."""

from duework.app import App
from duework.errors import (
    Conflict,
    DatabaseError,
    Error,
    Gone,
    InvalidArguments,
    LeaseLost,
    NotFound,
    PayloadTooLarge,
    SchemaMismatch,
    TaskNotFound,
    Unavailable,
    Unknown,
    UsageError,
    WaitTimeout,
)
from duework.handles import Job, Queue
from duework.kernel.outcomes import Cancel, Fail, Retry, Snooze, Throttled
from duework.kernel.retry import Exponential
from duework.kernel.run import Run
from duework.kernel.transaction import Transaction
from duework.part import Part
from duework.task import Task

__all__ = [
    "App",
    "Cancel",
    "Conflict",
    "DatabaseError",
    "Error",
    "Exponential",
    "Fail",
    "Gone",
    "InvalidArguments",
    "Job",
    "LeaseLost",
    "NotFound",
    "Part",
    "PayloadTooLarge",
    "Queue",
    "Retry",
    "Run",
    "SchemaMismatch",
    "Snooze",
    "Task",
    "TaskNotFound",
    "Throttled",
    "Transaction",
    "Unavailable",
    "Unknown",
    "UsageError",
    "WaitTimeout",
]
