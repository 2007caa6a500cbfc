"""Durable objects: state with a key, a private database and one alarm."""

from duework.shapes.shape import Shape

SHAPE = Shape("objects", __name__, owner="object")
