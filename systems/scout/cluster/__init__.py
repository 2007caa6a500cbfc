"""The fourth stage: which keywords and apps belong together, and what each group is worth."""

from systems.scout.cluster.graph import Edge
from systems.scout.cluster.making import communities
from systems.scout.cluster.task import cluster
from systems.scout.evaluate.markets import Member, scores

__all__ = ["Edge", "Member", "cluster", "communities", "scores"]
