"""Chains: pages, one after the other, each a job."""

from duework.shapes.shape import Shape

SHAPE = Shape("chains", __name__, owner="chain")
