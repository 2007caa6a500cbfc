"""Who looks at a page, apart from any request: what is needed to render it, now or once more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo

from duework.face import Person
from duework.web.tokens import Who


@dataclass(frozen=True, slots=True)
class Visitor:
    """Has the names that templates ask a `Visit` for."""

    who: Who | None = None
    person: Person | None = None
    # What forms of this session carry.
    form_key: str = ""
    # Where whoever is not known signs in, below `base`.
    sign_in: str = "/login"
    # What our own addresses start with, and the page below it, with its query.
    base: str = ""
    here: str = "/"
    theme: str = ""
    zone: tzinfo = UTC
    utc: bool = False
    keys_off: bool = False
    said: tuple[str, str] | None = None
    undo: None = None
