"""Durable background work: every piece of work is a row with a due time."""

from duework.admin import Admin
from duework.app import App
from duework.errors import (
    Conflict,
    DatabaseError,
    Error,
    Gone,
    InvalidArguments,
    LeaseLost,
    NotFound,
    ObjectTooLarge,
    PayloadTooLarge,
    SchemaMismatch,
    TaskNotFound,
    Unavailable,
    Unknown,
    UsageError,
    WaitTimeout,
)
from duework.handles import Attempt, Job, Queue
from duework.kernel import facts
from duework.kernel.adaptive import Adaptive
from duework.kernel.checkup import Check
from duework.kernel.outcomes import Cancel, Fail, Retry, Snooze, Throttled
from duework.kernel.paces import Rate, Tick
from duework.kernel.quota import Quota
from duework.kernel.retry import Exponential
from duework.kernel.run import Run
from duework.kernel.status import Status, TaskStatus, WorkerStatus
from duework.kernel.transaction import Transaction
from duework.kernel.verify import Finding
from duework.kernel.worker import Worker
from duework.part import Part
from duework.shapes.answers import Accepted, Pending, Rejected, Sent
from duework.shapes.batches import Batch, Progress
from duework.shapes.chain import Chain, ChainPage, ChainProgress, End, Next, Page
from duework.shapes.channels import Channel, Sending
from duework.shapes.deliveries import Delivery
from duework.shapes.messages import OutboxMessage
from duework.shapes.object_handle import ObjectHandle, ObjectInfo
from duework.shapes.objects import DurableObject
from duework.shapes.outboxes import Outbox, Postbox
from duework.shapes.paces import PaceStatus
from duework.shapes.schedule import Schedule
from duework.task import Task

__all__ = [
    "Accepted",
    "Adaptive",
    "Admin",
    "App",
    "Attempt",
    "Batch",
    "Cancel",
    "Chain",
    "ChainPage",
    "ChainProgress",
    "Channel",
    "Check",
    "Conflict",
    "DatabaseError",
    "Delivery",
    "DurableObject",
    "End",
    "Error",
    "Exponential",
    "Fail",
    "Finding",
    "Gone",
    "InvalidArguments",
    "Job",
    "LeaseLost",
    "Next",
    "NotFound",
    "ObjectHandle",
    "ObjectInfo",
    "ObjectTooLarge",
    "Outbox",
    "OutboxMessage",
    "PaceStatus",
    "Page",
    "Part",
    "PayloadTooLarge",
    "Pending",
    "Postbox",
    "Progress",
    "Queue",
    "Quota",
    "Rate",
    "Rejected",
    "Retry",
    "Run",
    "Schedule",
    "SchemaMismatch",
    "Sending",
    "Sent",
    "Snooze",
    "Status",
    "Task",
    "TaskNotFound",
    "TaskStatus",
    "Throttled",
    "Tick",
    "Transaction",
    "Unavailable",
    "Unknown",
    "UsageError",
    "WaitTimeout",
    "Worker",
    "WorkerStatus",
    "facts",
]
