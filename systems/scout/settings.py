"""What an operator may set of scout: `[scout]` in duework.toml, or SCOUT_* in the environment."""

from __future__ import annotations

from typing import Annotated

import msgspec

from duework import Secret


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults fit `python -m systems.twins --all`; README.md says what the real endpoints are."""

    apple_url: str = "http://127.0.0.1:8479"
    # Where pages of apps are, if it is another host.
    pages_url: str = ""
    # Whether pages and reviews are read at all: lookups alone leave more of Apple's pace to searches.
    pages: bool = True
    country: str = "us"
    # Calls a minute that Apple grants this address; read when the process starts, the same in all.
    rate: Annotated[int, msgspec.Meta(ge=10, le=6000)] = 20
    # How many apps one lookup asks for, and one chart shows.
    lookup: Annotated[int, msgspec.Meta(ge=1, le=200)] = 25
    chart: int = 200
    # Past places in charts and snapshots are kept so many days; apps that nobody has seen are archived then.
    keep: Annotated[int, msgspec.Meta(ge=11)] = 90
    # What the database may grow to, in bytes.
    size: int = 10_000_000_000
    # Who is told when data get worse; nobody without a key.
    alert_to: str = ""
    alert_from: str = "Scout <scout@localhost>"
    resend_url: str = "http://127.0.0.1:8476"
    resend_key: Secret | None = None

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
