"""What an operator may set of scout: `[scout]` in duework.toml, or SCOUT_* in the environment."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults fit `python -m systems.twins --all`; README.md says what the real endpoints are."""

    apple_url: str = "http://127.0.0.1:8479"
    country: str = "us"
    # How many apps one lookup asks for, and one chart shows.
    lookup: int = 25
    chart: int = 200
    # Past places in charts are kept so many days.
    keep: int = 90
