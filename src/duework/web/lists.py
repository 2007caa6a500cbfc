"""What an address says of a list: filters, where to go on; and addresses that say it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import Response

from duework.errors import NotFound
from duework.web.visits import Visit

PAGE = 50
LONGEST = 300
NEWEST = 2**62


def text(visit: Visit, name: str, longest: int = LONGEST) -> str:
    """A filter of the address, or a field of the form; empty if there is none."""
    value = visit.sent(name) or visit.asked(name)
    if len(value) > longest or "\0" in value:
        raise HTTPException(400, f"No {name} is that long.")
    return value


def required(visit: Visit, name: str, longest: int = LONGEST) -> str:
    """The same for what has to be there."""
    value = text(visit, name, longest)
    if not value:
        raise HTTPException(400, f"Say which {name}.")
    return value


def number(visit: Visit, name: str, default: int | None = None) -> int:
    """A number of the address or of the form."""
    given = visit.sent(name) or visit.asked(name)
    if not given and default is not None:
        return default
    if not re.fullmatch(r"[0-9]{1,19}", given) or int(given) >= 2**63:
        raise HTTPException(400, f"`{name}` is a number.")
    return int(given)


def path_id(visit: Visit, what: str) -> int:
    """The id in the path of an address; no row has one that is too large."""
    found = int(visit.request.path_params["id"])
    if found >= 2**63:
        raise NotFound(f"there is no {what} {found}")
    return found


def before(visit: Visit) -> int:
    """Where a list goes on; what is older comes next."""
    return min(number(visit, "before", NEWEST), NEWEST)


def one_of(visit: Visit, name: str, allowed: tuple[str, ...]) -> str:
    """A choice of the address; empty for none."""
    value = visit.asked(name)
    if value not in {"", *allowed}:
        raise HTTPException(400, f"There is no such {name}.")
    return value


def address(base: str, path: str, **query: Any) -> str:
    """An address of ours; what is empty is left out."""
    asked = urlencode({name: value for name, value in query.items() if value not in {"", None}})
    return f"{base}{path}" + (f"?{asked}" if asked else "")


def show(visit: Visit, template: str, **values: Any) -> Response:
    """A page made from `list.html` or `one.html`; what it does not say of them is empty."""
    common: dict[str, Any] = {"crumb": None, "filters": [], "kept": [], "chosen": []}
    common |= {"newest": "", "older": "", "order": "Newest first"}
    return visit.render(visit, template, live=visit.live(), **{**common, **values})
