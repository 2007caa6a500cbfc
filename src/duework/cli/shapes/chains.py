"""`duework chains`: find chains, look at one and its pages, cancel, resume and retry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click
from rich.text import Text

from duework import App, Chain, ChainPage, InvalidArguments
from duework.cli.base import Group, examples, on_database
from duework.cli.jobs import each_of
from duework.cli.out import STYLES, Out, ago, first_line, plain
from duework.durations import human
from duework.observe.log import escaped

STATES = ("active", "done", "failed", "cancelled")
MOST = 1000


@click.group(cls=Group)
def chains() -> None:
    """Find chains, look at one and its pages, cancel, resume and retry."""


@chains.command(
    "list",
    epilog=examples(
        "duework chains list --state active",
        "duework chains list --key athlete:7",
        "duework chains list --state failed --json | jq -r .id",
    ),
)
@click.option("--state", type=click.Choice(STATES), help="Only chains in this state.")
@click.option("--task", default="", help="Only chains of this task.")
@click.option("--key", default="", help="Only chains with this key.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MOST))
@click.option("--before", type=int, default=2**62, show_default="none", help="Older than this id.")
@on_database()
def list_(app: App, out: Out, **wanted: Any) -> None:
    """List chains, newest first. With --json: one object per line."""
    found = app.chains(**wanted)
    if out.as_json:
        for chain in found:
            out.json(as_dict(chain))
        return
    if not found:
        out.say("no chains")
        return
    now = app.now()
    rows = [
        (
            *(chain.id, chain.state, chain.task, chain.completed, _percent(chain)),
            *(ago(chain.settled or chain.started, now), first_line(chain.error) or chain.key or ""),
        )
        for chain in found
    ]
    heads = ["!id", "!state", "task", ">pages", ">percent", "!when", "error or key"]
    out.table(heads, rows)
    if len(found) == wanted["limit"]:
        out.say(f"more: --before {found[-1].id}", "dim")


@chains.command(
    epilog=examples(
        "duework chains show 251234567890123456",
        "duework chains show 251234567890123456 --after 100     the next pages",
    )
)
@click.argument("chain_id", metavar="ID", type=int)
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, MOST))
@click.option("--after", type=int, default=0, show_default=True, help="Pages after this number.")
@on_database()
def show(app: App, out: Out, chain_id: int, limit: int, after: int) -> None:
    """Show one chain: how far it is, its counts, and its pages with times, quota and errors."""
    chain = app.get_chain(chain_id)
    pages = chain.pages(after=after, limit=limit)
    if out.as_json:
        out.json({**as_dict(chain), "pages": [_page(page) for page in pages]})
        return
    _fields(out, chain, app.now())
    if pages:
        out.say("")
        rows = [
            (
                *(page.number, page.phase, _took(page), page.failures),
                *(_counted(page.counts), _counted(page.quota), first_line(page.error) or ""),
            )
            for page in pages
        ]
        heads = [">page", "!phase", ">took", ">failures", "*counts", "*quota", "*error"]
        out.table(heads, rows)
    if len(pages) == limit:
        out.say(f"more: --after {pages[-1].number}", "dim")


def _fields(out: Out, chain: Chain, now: int) -> None:
    fields: list[tuple[str, object]] = [
        ("id", chain.id),
        ("task", chain.task),
        ("key", chain.key),
        ("state", chain.state),
        ("pages", f"{chain.completed} done"),
        ("percent", _percent(chain)),
        ("counts", chain.stored_counts),
        ("cursor", chain.stored_cursor),
        ("size", chain.size),
        ("payload", chain.payload),
        ("started", ago(chain.started, now)),
        ("ended", ago(chain.settled, now)),
        ("error", chain.error),
    ]
    for name, value in fields:
        if value is not None:
            text = escaped(str(value))
            line = Text.assemble((f"{name:<11}", "dim"), (text, STYLES.get(text, "")))
            out.console.print(line, soft_wrap=True)


def _percent(chain: Chain) -> str | None:
    percent = _number(chain)
    return None if percent is None else f"{percent:g} %"


def _number(chain: Chain) -> float | None:
    """None also where the stored row cannot be read."""
    try:
        return chain.percent
    except InvalidArguments:
        return None


def _counted(counts: Mapping[str, object] | None) -> str | None:
    return ", ".join(f"{name} {count}" for name, count in (counts or {}).items()) or None


def _took(page: ChainPage) -> str | None:
    if page.started is None or page.settled is None:
        return None
    return human(max(0, page.settled - page.started))


def as_dict(chain: Chain) -> dict[str, object]:
    return {
        "id": str(chain.id),
        "task": chain.task,
        "key": chain.key,
        "state": chain.state,
        "pages_done": chain.completed,
        "percent": _number(chain),
        "counts": plain(chain.stored_counts),
        "cursor": plain(chain.stored_cursor),
        "size": chain.size,
        "arguments": plain(chain.payload),
        "started": chain.started,
        "settled": chain.settled,
        "error": chain.error,
    }


def _page(page: ChainPage) -> dict[str, object]:
    return {
        "number": page.number,
        "phase": page.phase,
        "cursor": page.cursor,
        "size": page.size,
        "counts": page.counts,
        "quota": page.quota,
        "job": str(page.job),
        "failures": page.failures,
        "created": page.created,
        "started": page.started,
        "settled": page.settled,
        "error": page.error,
    }


@chains.command(epilog=examples('duework chains cancel 251234567890123456 --why "asked to stop"'))
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--why", default="cancelled by hand", show_default=True, help="Kept with the chain.")
@on_database()
def cancel(app: App, out: Out, ids: tuple[int, ...], why: str) -> int:
    """End chains between two pages. A page that runs is completed and counted."""
    return each_of(out, ids, lambda chain: app.get_chain(chain).cancel(why))


@chains.command(epilog=examples("duework chains resume 251234567890123456"))
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@on_database()
def resume(app: App, out: Out, ids: tuple[int, ...]) -> int:
    """Let cancelled or failed chains go on after their last completed page."""
    return each_of(out, ids, _state_after(app, Chain.resume))


@chains.command(epilog=examples("duework chains retry 251234567890123456"))
@click.argument("ids", metavar="ID...", type=int, nargs=-1, required=True)
@on_database()
def retry(app: App, out: Out, ids: tuple[int, ...]) -> int:
    """Run the failed page of chains again; they go on from there."""
    return each_of(out, ids, _state_after(app, Chain.retry))


def _state_after(app: App, verb: Callable[[Chain], Chain]) -> Callable[[int], str]:
    return lambda chain: verb(app.get_chain(chain)).state
