"""Deliveries: one body, several channels, only what failed again."""

from duework.shapes.shape import Shape

SHAPE = Shape("deliveries", __name__, owner="delivery")
