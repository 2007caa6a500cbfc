"""Sweeps: work that a query finds in the user's own tables, done in groups by one sweeper."""

from duework.shapes.shape import Shape

SHAPE = Shape("sweeps", __name__, owner="sweep")
