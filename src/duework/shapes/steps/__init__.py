"""Steps: an async task that goes on where it was, since each of its steps is recorded with its effects."""

from duework.shapes.shape import Shape

SHAPE = Shape("steps", __name__, owner="step")
