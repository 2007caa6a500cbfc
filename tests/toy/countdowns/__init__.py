"""Countdowns: a row that a job counts down, second by second, until it has landed."""

from duework.shapes.shape import Shape

SHAPE = Shape("countdowns", __name__, owner="countdown")
