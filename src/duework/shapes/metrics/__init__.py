"""Metrics: what users count, by minute, hour and day."""

from duework.shapes.shape import Shape

SHAPE = Shape("metrics", __name__)
