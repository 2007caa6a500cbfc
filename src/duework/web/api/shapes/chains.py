"""Chains by HTTP: start one, look at its pages, cancel, resume, retry."""

from __future__ import annotations

from duework.byname import call_of, chains_of
from duework.errors import TaskNotFound
from duework.shapes.chains.handle import Chain
from duework.web.api.operation import (
    BASE,
    FIRST_ID,
    Answer,
    Ask,
    Operation,
    acts,
    cursor_of,
    noted,
    page_of,
    place_of,
    reads,
)
from duework.web.api.shape_types import ChainLine, ChainQuery, PageLine, StartChain
from duework.web.api.types import Acted, Because, Listed, Made, Nothing, PageQuery


def start(ask: Ask) -> Answer:
    """Start a chain; if one of its key is active, that one is answered."""
    wanted: StartChain = ask.body
    task = chains_of(ask.app).get(wanted.task)
    if task is None:
        raise TaskNotFound(f"this process knows no chain {wanted.task!r:.200}")
    args, kwargs = call_of(task.definition.arguments, wanted.arguments)
    options = task.using(key=wanted.key, page_size=wanted.page_size, delay=wanted.delay)
    made = options.start(*args, **kwargs)
    status = 200 if made.existed else 201
    return Answer(Made(str(made.id), made.existed), status, f"{BASE}/chains/{made.id}")


def chains(ask: Ask) -> Listed[ChainLine]:
    """Chains, newest first."""
    wanted: ChainQuery = ask.query
    found = ask.app.chains(
        state=wanted.state or None,
        task=wanted.task,
        key=wanted.key,
        before=place_of(wanted.cursor, int, FIRST_ID),
        limit=wanted.limit,
    )
    return page_of(found, wanted.limit, _line, lambda each: each.id)


def chain(ask: Ask) -> ChainLine:
    """One chain, and how far it is."""
    return _line(ask.app.get_chain(ask.id()))


def _line(found: Chain) -> ChainLine:
    return ChainLine(
        *(str(found.id), found.task, found.key, found.state, found.completed, found.percent),
        *(found.counts, found.error, found.started, found.settled),
    )


def pages(ask: Ask) -> Listed[PageLine]:
    """The pages of a chain, in order."""
    wanted: PageQuery = ask.query
    found = ask.app.get_chain(ask.id()).pages(
        after=place_of(wanted.cursor, int, 0), limit=wanted.limit
    )
    more = cursor_of(found[-1].number) if len(found) == wanted.limit else None
    lines = [
        PageLine(
            *(each.number, each.phase, each.cursor if ask.payloads else None, each.size),  # type: ignore[arg-type]  # a text of the database
            *(dict(each.counts), str(each.job), each.failures, each.error),
            *(each.started, each.settled),
        )
        for each in found
    ]
    return Listed(lines, more)


def cancel(ask: Ask) -> Acted:
    """End a chain between two pages."""
    found = ask.app.get_chain(ask.id())
    words = ask.body.why or f"cancelled by {ask.who.name}"
    outcome = noted(ask, "cancel", f"chain {found.id}", lambda: found.cancel(words))
    return Acted(str(found.id), outcome)


def resume(ask: Ask) -> ChainLine:
    """Go on after the last completed page."""
    found = ask.app.get_chain(ask.id())
    return _line(noted(ask, "resume", f"chain {found.id}", found.resume))


def retry(ask: Ask) -> ChainLine:
    """Run the failed page again."""
    found = ask.app.get_chain(ask.id())
    return _line(noted(ask, "retry", f"chain {found.id}", found.retry))


OPERATIONS = (
    reads("/chains", chains, Listed[ChainLine], ChainQuery),
    Operation("POST", "/chains", "operate", start, Made, body=StartChain, statuses=(201, 200)),
    reads("/chains/{id}", chain, ChainLine),
    reads("/chains/{id}/pages", pages, Listed[PageLine], PageQuery),
    acts("/chains/{id}/cancel", cancel, Acted, Because),
    acts("/chains/{id}/resume", resume, ChainLine, Nothing),
    acts("/chains/{id}/retry", retry, ChainLine, Nothing),
)
