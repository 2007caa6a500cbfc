"""Labels: the tags and headers that a job carries, and how long it may be put off."""

from duework.shapes.shape import Shape

SHAPE = Shape("labels", __name__)
