"""Paces, as users hold them."""

from duework.shapes.shape import Shape

SHAPE = Shape("paces", __name__)
