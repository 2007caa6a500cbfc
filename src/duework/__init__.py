"""Durable background work: every piece of work is a row with a due time."""

from duework.admin import Admin
from duework.app import App
from duework.changes import Change
from duework.clock import Scaled
from duework.config import Secret
from duework.errors import (
    BadSignature,
    Conflict,
    DatabaseError,
    Error,
    Gone,
    InvalidArguments,
    JobCancelled,
    JobFailed,
    LeaseLost,
    NotFound,
    ObjectTooLarge,
    PayloadTooLarge,
    SchemaMismatch,
    SecretsError,
    StepFailed,
    TaskNotFound,
    Unavailable,
    Unknown,
    UsageError,
    WaitTimeout,
)
from duework.face import Person, Problem, Reply, SharedSecret, Template, Upload
from duework.handles import Attempt, Job, Queue
from duework.health.checkup import Check
from duework.health.needs import Need
from duework.health.status import Status, TaskStatus, WorkerStatus
from duework.health.verify import Finding
from duework.health.why import Why
from duework.kernel import facts
from duework.kernel.failures.failure import Failure
from duework.kernel.failures.retry import Exponential
from duework.kernel.outcomes import BudgetSpent, Cancel, Fail, Retry, Snooze, Throttled
from duework.kernel.paces.adaptive import Adaptive
from duework.kernel.paces.pace import Rate, Tick
from duework.kernel.paces.quota import Quota
from duework.kernel.run import Run
from duework.kernel.surroundings.leaving import preparing
from duework.kernel.surroundings.resources import AsyncResource, Resource
from duework.kernel.transaction import Transaction
from duework.outside import http, otel, webhooks
from duework.outside.oauth import OAuth, OAuthGrant
from duework.part import Part
from duework.shapes.batches.handle import Batch, Progress
from duework.shapes.blobs.handle import Blobs
from duework.shapes.blobs.verbs import Blob
from duework.shapes.budgets.handle import Budget, BudgetStatus, Spend, SpendEntry
from duework.shapes.chains.handle import Chain, ChainPage, ChainProgress, End, Next, Page
from duework.shapes.deliveries.channels import Channel, Sending
from duework.shapes.deliveries.handle import Delivery
from duework.shapes.deliveries.send import Send
from duework.shapes.events.handle import FailedEvent, Subscription
from duework.shapes.events.verbs import Event, Subscriber
from duework.shapes.metrics.handle import MetricPoint, Metrics
from duework.shapes.objects.handle import DurableObject
from duework.shapes.objects.proxy import ObjectHandle, ObjectInfo
from duework.shapes.outboxes.answers import Accepted, Pending, Rejected, Sent
from duework.shapes.outboxes.handle import Outbox, OutboxHandle
from duework.shapes.outboxes.messages import OutboxMessage
from duework.shapes.paces.handle import PaceStatus
from duework.shapes.schedules.handle import Schedule
from duework.shapes.steps.handle import Step, Workflow
from duework.shapes.sweeps.handle import Sweep, SweepStatus
from duework.task import Task
from duework.worker.worker import Worker

__all__ = [
    "Accepted",
    "Adaptive",
    "Admin",
    "App",
    "AsyncResource",
    "Attempt",
    "BadSignature",
    "Batch",
    "Blob",
    "Blobs",
    "Budget",
    "BudgetSpent",
    "BudgetStatus",
    "Cancel",
    "Chain",
    "ChainPage",
    "ChainProgress",
    "Change",
    "Channel",
    "Check",
    "Conflict",
    "DatabaseError",
    "Delivery",
    "DurableObject",
    "End",
    "Error",
    "Event",
    "Exponential",
    "Fail",
    "FailedEvent",
    "Failure",
    "Finding",
    "Gone",
    "InvalidArguments",
    "Job",
    "JobCancelled",
    "JobFailed",
    "LeaseLost",
    "MetricPoint",
    "Metrics",
    "Need",
    "Next",
    "NotFound",
    "OAuth",
    "OAuthGrant",
    "ObjectHandle",
    "ObjectInfo",
    "ObjectTooLarge",
    "Outbox",
    "OutboxHandle",
    "OutboxMessage",
    "PaceStatus",
    "Page",
    "Part",
    "PayloadTooLarge",
    "Pending",
    "Person",
    "Problem",
    "Progress",
    "Queue",
    "Quota",
    "Rate",
    "Rejected",
    "Reply",
    "Resource",
    "Retry",
    "Run",
    "Scaled",
    "Schedule",
    "SchemaMismatch",
    "Secret",
    "SecretsError",
    "Send",
    "Sending",
    "Sent",
    "SharedSecret",
    "Snooze",
    "Spend",
    "SpendEntry",
    "Status",
    "Step",
    "StepFailed",
    "Subscriber",
    "Subscription",
    "Sweep",
    "SweepStatus",
    "Task",
    "TaskNotFound",
    "TaskStatus",
    "Template",
    "Throttled",
    "Tick",
    "Transaction",
    "Unavailable",
    "Unknown",
    "Upload",
    "UsageError",
    "WaitTimeout",
    "Why",
    "Worker",
    "WorkerStatus",
    "Workflow",
    "facts",
    "http",
    "otel",
    "preparing",
    "webhooks",
]
