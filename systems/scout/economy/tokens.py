"""Tokens and their prices: what an answer has cost, and the most that a question can. Pure functions."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import msgspec

from systems.scout.settings import Settings

# What an endpoint may add around each message, and around the answer.
AROUND = 16


class NothingSpent(Exception):
    """The model was asked in vain, and has surely cost nothing. `lasting`: asking again does not help."""

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said, or why it said nothing; and what it counted."""

    content: str | None = None
    # Refused, cut, filtered: why the content is not to be used.
    why: str | None = None
    prompt: int = 0
    cached: int = 0
    completion: int = 0

    def written(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> Answer:
        return msgspec.json.decode(text, type=cls)


def price(answer: Answer, prices: Settings) -> int:
    """In millionths of a dollar, rounded up; a price is dollars for a million tokens."""
    return math.ceil(
        (answer.prompt - answer.cached) * exact(prices.llm_price_in)
        + answer.cached * exact(prices.llm_price_cached)
        + answer.completion * exact(prices.llm_price_out)
    )


def most(messages: list[dict[str, str]], prices: Settings) -> int:
    """The most that an answer can cost: a token is at least a byte, and the answer has its limit."""
    size = len(json.dumps(messages).encode()) + AROUND * (len(messages) + 1)
    return math.ceil(
        size * exact(prices.llm_price_in) + prices.llm_tokens * exact(prices.llm_price_out)
    )


def exact(price_: float) -> Decimal:
    """As it is written, not as it is kept in two's powers."""
    return Decimal(str(price_))
