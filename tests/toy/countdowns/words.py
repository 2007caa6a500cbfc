"""The facts of countdowns in words."""

from __future__ import annotations

import logging

from duework.kernel.facts import Words

from .verbs import Landed


def landed(fact: Landed) -> Words:
    return Words(logging.INFO, "countdown_landed", f"countdown {fact.name} has landed")


WORDS = {Landed: landed}
