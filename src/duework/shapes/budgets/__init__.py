"""Budgets: what may be spent in a period, reserved before and settled after, with a ledger row each."""

from duework.shapes.shape import Shape

SHAPE = Shape("budgets", __name__)
