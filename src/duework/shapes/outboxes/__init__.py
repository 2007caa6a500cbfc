"""Outboxes: submit, poll and account for messages of another system."""

from duework.shapes.shape import Shape

SHAPE = Shape("outboxes", __name__, owner="outbox")
