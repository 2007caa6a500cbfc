"""The facts of sweeps in words."""

from __future__ import annotations

import logging

from duework.kernel.facts import Words
from duework.shapes.sweeps.verbs import ItemFailed


def failed(fact: ItemFailed) -> Words:
    why = fact.error.partition("\n")[0]
    return Words(logging.WARNING, "sweep_item_failed", f"{fact.key} of {fact.sweep} failed: {why}")


WORDS = {ItemFailed: failed}
