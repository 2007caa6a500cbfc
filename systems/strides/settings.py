"""What an operator may set of strides: `[strides]` in duework.toml, or STRIDES_* in the environment."""

from __future__ import annotations

import msgspec

from duework import Secret, UsageError

# More than that in one page would be a lot to lose.
MOST_CALLS = 20


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults fit `python -m systems.twins --all`; README.md says what the real API needs."""

    strava_url: str = "http://127.0.0.1:8478"
    # Where the API is, if it is not below strava_url.
    api_url: str = ""
    client_id: str = "12345"
    client_secret: Secret = Secret("strava-secret")
    # What others have to show that ask for a page by /internal/process-batch; without it nobody may.
    internal_secret: Secret | None = None
    # What Strava shows when it asks whether we want its events; without it there are none.
    push_token: Secret | None = None
    # Where browsers find the pages: Strava sends athletes back there.
    public_url: str = "http://127.0.0.1:8377"
    # Calls of 200 activities in each page of a sync; 0 lets the pages fit the athlete.
    page_calls: int = 0
    # A Standard-tier application connects ten athletes.
    most_athletes: int = 10
    # For how many days the log of a sync is kept.
    keep: int = 7
    # How many days before the last sync an incremental one begins: uploads come late.
    overlap: int = 7

    def __post_init__(self) -> None:
        if not 0 <= self.page_calls <= MOST_CALLS:
            raise UsageError(f"page_calls is 0 to {MOST_CALLS}; 0 lets the pages fit the athlete")

    @property
    def api(self) -> str:
        return self.api_url or f"{self.strava_url.rstrip('/')}/api/v3"
