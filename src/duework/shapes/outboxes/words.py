"""The facts of outboxes in words."""

from __future__ import annotations

import logging

from duework.kernel.facts import MessageMoved, Words


def moved(fact: MessageMoved) -> Words:
    why = "" if fact.error is None else f": {fact.error.partition(chr(10))[0]}"
    text = f"message {fact.id} of {fact.outbox} is {fact.state}{why}"
    return Words(logging.INFO, "message_moved", text)


WORDS = {MessageMoved: moved}
