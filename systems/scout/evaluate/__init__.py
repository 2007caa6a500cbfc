"""The third stage: events tell agents of what is new, and agents score apps, keywords and clusters."""

from systems.scout.evaluate.consumers import evaluate, score_waiting
from systems.scout.evaluate.formulas import competitiveness, days_since, half_up

__all__ = ["competitiveness", "days_since", "evaluate", "half_up", "score_waiting"]
