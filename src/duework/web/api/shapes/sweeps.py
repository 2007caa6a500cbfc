"""Sweeps by HTTP: how each goes, what is put off; start, stop, reset."""

from __future__ import annotations

from collections.abc import Callable

from duework.shapes.sweeps.handle import SweepStatus
from duework.shapes.sweeps.verbs import SweepItem
from duework.web.api.operation import Ask, acts, line_of, noted, page_of, place_of, reads, text_of
from duework.web.api.record_types import SweepItemLine, SweepItemsQuery, SweepLine
from duework.web.api.types import Because, Listed, PageQuery


def sweeps(ask: Ask) -> Listed[SweepLine]:
    """Sweeps by name."""
    after = place_of(ask.query.cursor, str, "")
    found = ask.app.sweeps.search(after=after, limit=ask.query.limit)
    return page_of(found, ask.query.limit, _line, lambda each: each.name)


def sweep(ask: Ask) -> SweepLine:
    """One sweep as it is now."""
    return _line(ask.app.sweeps.get(ask.path["name"]))


def _line(seen: SweepStatus) -> SweepLine:
    return line_of(SweepLine, seen, job=text_of(seen.job))


def items(ask: Ask) -> Listed[SweepItemLine]:
    """Items of a sweep that are put off, the next ones first."""
    name = ask.app.sweeps.get(ask.path["name"]).name
    return Listed([_item(each) for each in ask.app.sweeps.failing(name, ask.query.limit)], None)


def _item(seen: SweepItem) -> SweepItemLine:
    return line_of(SweepItemLine, seen, next_try=None if seen.given_up else seen.next_try)


def start(ask: Ask) -> SweepLine:
    """Let it run, and look at once."""
    return _on(ask, "start", ask.app.sweeps.start)


def stop(ask: Ask) -> SweepLine:
    """Begin no more groups; one that runs is completed."""
    return _on(ask, "stop", ask.app.sweeps.stop)


def reset(ask: Ask) -> SweepLine:
    """Forget what went wrong, and count anew."""
    return _on(ask, "reset", ask.app.sweeps.reset)


def _on(ask: Ask, what: str, act: Callable[[str], SweepStatus]) -> SweepLine:
    name = ask.path["name"]
    return _line(noted(ask, what, f"sweep {name}", lambda: act(name)))


_ONE = "/sweeps/{name}"
OPERATIONS = (
    reads("/sweeps", sweeps, Listed[SweepLine], PageQuery),
    reads(_ONE, sweep, SweepLine),
    reads(f"{_ONE}/items", items, Listed[SweepItemLine], SweepItemsQuery),
    acts(f"{_ONE}/start", start, SweepLine, Because),
    acts(f"{_ONE}/stop", stop, SweepLine, Because),
    acts(f"{_ONE}/reset", reset, SweepLine, Because),
)
