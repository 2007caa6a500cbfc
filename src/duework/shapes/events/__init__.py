"""Events: what is published reaches every subscriber, each by a job of its own."""

from duework.shapes.shape import Shape

SHAPE = Shape("events", __name__, owner="event")
