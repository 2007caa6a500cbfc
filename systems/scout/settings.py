"""What an operator may set of scout: `[scout]` in duework.toml, or SCOUT_* in the environment."""

from __future__ import annotations

import msgspec

from duework import Secret


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults fit `python -m systems.twins --all`; README.md says what the real endpoints are."""

    apple_url: str = "http://127.0.0.1:8479"
    country: str = "us"
    # How many apps one lookup asks for, and one chart shows.
    lookup: int = 25
    chart: int = 200
    # Past places in charts are kept so many days.
    keep: int = 90

    # Whoever debates: any endpoint that speaks as OpenAI's does. Without a key the rules speak.
    llm_url: str = "http://127.0.0.1:8480/v1"
    llm_key: Secret | None = None
    llm_model: str = "demo-mini"
    # Whether the answer comes in pieces, for endpoints that are slow to say the first word.
    llm_stream: bool = False
    # The longest answer, in tokens.
    llm_tokens: int = 900
    # Dollars for a million tokens: what is asked, what of it was asked before, what is answered.
    llm_price_in: float = 0.15
    llm_price_cached: float = 0.075
    llm_price_out: float = 0.60
    # The crawl skips its cycles for the rest of a month after so many estimated rows.
    ceiling_rows: int = 5_000_000_000
    rows_a_cycle: int = 500_000
