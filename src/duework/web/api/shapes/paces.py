"""Paces by HTTP: what each admits now, and an operator's wishes."""

from __future__ import annotations

from duework.shapes.paces.handle import PaceStatus
from duework.web.api.operation import Ask, acts, line_of, noted, reads
from duework.web.api.shape_types import BlockPace, PaceLine, PaceQuery
from duework.web.api.types import Listed, Nothing


def paces(ask: Ask) -> Listed[PaceLine]:
    """Every pace that has admitted something or is declared here, by name; up to 1000."""
    return Listed([_line(each) for each in ask.app.paces(ask.query.prefix)], None)


def pace(ask: Ask) -> PaceLine:
    """One pace as it is now."""
    return _line(ask.app.get_pace(ask.path["name"]))


def _line(seen: PaceStatus) -> PaceLine:
    return line_of(PaceLine, seen)


def block(ask: Ask) -> PaceLine:
    """Start nothing more of it for so long; 0 ends a block."""
    seen = ask.app.get_pace(ask.path["name"])
    noted(ask, "block", f"pace {seen.name}", lambda: seen.block(ask.body.length))
    return pace(ask)


def reset(ask: Ask) -> PaceLine:
    """As if it had never admitted anything."""
    seen = ask.app.get_pace(ask.path["name"])
    noted(ask, "reset", f"pace {seen.name}", seen.reset)
    return pace(ask)


_ONE = "/paces/{name:any}"
OPERATIONS = (
    reads("/paces", paces, Listed[PaceLine], PaceQuery),
    acts(f"{_ONE}/block", block, PaceLine, BlockPace),
    acts(f"{_ONE}/reset", reset, PaceLine, Nothing),
    reads(_ONE, pace, PaceLine),
)
