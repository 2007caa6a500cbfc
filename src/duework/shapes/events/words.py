"""The facts of events in words."""

from __future__ import annotations

import logging

from duework.kernel.facts import Words
from duework.shapes.events.verbs import BulkSplit


def split(fact: BulkSplit) -> Words:
    text = f"a bulk of {fact.count} for {fact.subscriber} failed, each runs by itself: {fact.why}"
    return Words(logging.WARNING, "bulk_split", text)


WORDS = {BulkSplit: split}
