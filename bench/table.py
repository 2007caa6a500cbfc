"""The table of a run, for the terminal (100 columns) and for `README.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from bench.figures import Figure, Result, number, results, told
from bench.history import Record
from bench.scenarios.peers import FSYNC, PEERS, Peer

WIDTH = 100
MET = {True: "met", False: "NOT MET", None: ""}


def rows(figures: Sequence[Figure], record: Record) -> Iterator[tuple[str, ...]]:
    """what, median, min–max, ratio, bar, met"""
    for result in results(figures, record.samples):
        unit = result.figure.unit
        yield (
            result.figure.what,
            _with_unit(result.value, unit),
            f"{number(min(result.samples), unit)}–{number(max(result.samples), unit)}",
            "" if result.ratio is None else f"{result.ratio:.2f}",
            " & ".join(told(bar, unit) for bar in result.figure.bars),
            MET[result.met],
        )


def _with_unit(value: float, unit: str) -> str:
    short = {"/s": "/s", "% of a core": " %"}.get(unit, f" {unit}")
    return number(value, unit) + ("" if unit in {"jobs", "statements"} else short)


def peer_rows(record: Record) -> Iterator[tuple[str, ...]]:
    """peer, enqueue, bulk, drain, ours ÷ theirs, bar, met, p50 / p99, from the call, durability"""
    yield _own_row("Duework, SQLite", record, ("enqueue", "enqueue_many", "drain", "start_other"))
    yield _own_row("Duework, one process", record, ("start_same",))
    own = ("pg_enqueue", "pg_enqueue_many", "pg_drain", "pg_start_other")
    yield _own_row("Duework, PostgreSQL", record, own)
    for peer in PEERS:
        yield _peer_row(peer, record)


def _own_row(name: str, record: Record, names: Sequence[str]) -> tuple[str, ...]:
    *rates, start = names
    found = [_cell(record, each, "/s") for each in rates] or [""] * 3
    return (name, *found, "", "", "", *_starts(record, f"{start}_"), FSYNC)


def _peer_row(peer: Peer, record: Record) -> tuple[str, ...]:
    slug = peer.slug
    problem = record.missing.get(peer.name) or record.failed.get(peer.name)
    if problem:
        return (peer.name, f"missing: {problem}", *[""] * 8)
    if f"{slug}:drain" not in record.samples:
        return (peer.name, "not measured in this run", *[""] * 8)
    rates = [_cell(record, f"{slug}:{what}", "/s") for what in ("enqueue", "bulk", "drain")]
    times = ahead(peer, record)
    bar = "" if peer.times is None else f"≥ {peer.times:g} ×"
    met = MET[times >= peer.times] if times is not None and peer.times is not None else ""
    shown = "" if times is None else f"{times:.1f}"
    return (peer.name, *rates, shown, bar, met, *_starts(record, f"{slug}:"), peer.durability)


def ahead(peer: Peer, record: Record) -> float | None:
    """Our drain over theirs, of the same run; PgQueuer's on PostgreSQL, the others' on SQLite."""
    ours = "pg_drain" if peer.module == "pgqueuer_pg" else "drain"
    return _times(record, ours, f"{peer.slug}:drain")


def _times(record: Record, ours: str, theirs: str) -> float | None:
    """The median of the ratios of each round."""
    found = record.samples
    samples = {"ours": found.get(ours, []), "theirs": found.get(theirs, [])}
    told = results([Figure("ours", "", "", against="theirs")], samples)
    return told[0].ratio if told else None


def claims(record: Record) -> Iterator[tuple[str, bool]]:
    """The bars that are about all peers together."""
    for store in ("sqlite", "postgres"):
        those = [peer for peer in PEERS if peer.store == store and peer.durability == FSYNC]
        found = {
            peer.name: times
            for peer in those
            if (times := _times(record, f"{peer.slug}:ours", f"{peer.slug}:enqueue")) is not None
        }
        if found:
            best = min(found, key=found.__getitem__)
            text = f"one enqueue at a time on {store}, in turn with theirs, ahead of every peer"
            yield f"{text} that fsyncs there (closest: {found[best]:.2f} × {best})", found[best] > 1
    yield from _starts_ahead(record)


def _starts_ahead(record: Record) -> Iterator[tuple[str, bool]]:
    """From the call: how early somebody returns says nothing of when the job starts.

    Of peers that answer before the disk has it, the table tells; they are no bar.
    """
    those = [peer for peer in PEERS if peer.durability == FSYNC]
    for where, ours in (("the same process", "ours_call_p50"), ("another", "other_call_p50")):
        found = {
            peer.name: times
            for peer in those
            if (times := _times(record, f"{peer.slug}:call_p50", f"{peer.slug}:{ours}"))
        }
        if found:
            best = min(found, key=found.__getitem__)
            text = f"start, p50 from the call of enqueue, by a worker in {where}, in turn with"
            closest = f"closest: {best}, {found[best]:.2f} ×"
            yield f"{text} theirs, ahead of every peer that fsyncs ({closest})", found[best] > 1


def _starts(record: Record, prefix: str) -> tuple[str, str]:
    p50, p99 = (_cell(record, f"{prefix}{name}", "ms") for name in ("p50", "p99"))
    return f"{p50} / {p99}", _cell(record, f"{prefix}call_p50", "ms")


def _cell(record: Record, name: str, unit: str) -> str:
    samples = record.samples.get(name)
    if not samples:
        return "–"
    return number(Result(Figure(name, "", unit), samples, ()).value, unit)


def show(console: Console, figures: Sequence[Figure], record: Record) -> None:
    """Print the tables of a run."""
    table = Table("what", width=WIDTH, box=None, pad_edge=False)
    for name in ("median", "min–max", "ratio", "bar"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for *cells, met in rows(figures, record):
        style = {"met": "green", "NOT MET": "bold red"}.get(met, "")
        table.add_row(*cells, f"[{style}]{met}[/]" if style else met)
    console.print(table)
    for name, why in {**record.missing, **record.failed}.items():
        console.print(f"[yellow]{name}: {why}[/]", highlight=False, soft_wrap=False, width=WIDTH)
    if record.peers:
        _show_peers(console, record)


def _show_peers(console: Console, record: Record) -> None:
    table = Table("peer", width=WIDTH, box=None, pad_edge=False)
    for name in ("enqueue/s", "drain/s", "ours ÷", "bar", "", "start ms", "commit"):
        table.add_column(name, justify="right", no_wrap=True)
    for cells in peer_rows(record):
        if cells[1].startswith(("missing", "not")):
            console.print(f"[yellow]{cells[0]} {cells[1]}[/]", highlight=False, width=WIDTH)
        else:
            table.add_row(*cells[:2], *cells[3:8], cells[-1])
    console.print(table)
    for text, met in claims(record):
        console.print(f"{text}: {MET[met]}", highlight=False)
