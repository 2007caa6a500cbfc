"""The fifth stage: a debate about a cluster as durable steps, and what comes of it."""

from systems.scout.evaluate.formulas import WEIGHTS
from systems.scout.opportunity.steps import ask_for, opportunity

__all__ = ["WEIGHTS", "ask_for", "opportunity"]
