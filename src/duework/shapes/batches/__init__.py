"""Batches, as users hold them."""

from duework.shapes.shape import Shape

SHAPE = Shape("batches", __name__)
