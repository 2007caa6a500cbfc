"""Writes `README.md` and its charts anew from the last full run in `history.jsonl`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import charts, history
from bench.charts import Dot
from bench.figures import Figure, Result, number, results
from bench.history import Record
from bench.scenarios.peers import PEERS
from bench.table import claims, peer_rows, rows

HERE = Path(__file__).parent
QUESTIONS = (
    *("raw_sqlite", "raw_postgres", "enqueue", "drain", "latency", "idle", "backlog", "head"),
    *("crowd", "kill", "snapshot", "batch", "schedules", "pace", "objects", "workflows"),
)
# What nobody can wait for less than this; a logarithm needs something.
LEAST_MS = 0.01
SHOWN_RUNS = 12
RATES = (
    ("raw SQLite loop", "raw", "raw_loop"),
    ("raw PostgreSQL loop", "raw", "raw_pg_loop"),
    ("Duework, SQLite", "ours", "drain"),
    ("Duework, SQLite, two processes", "ours", "drain_two"),
    ("Duework, PostgreSQL", "ours", "pg_drain"),
    ("Duework, PostgreSQL, two processes", "ours", "pg_drain_two"),
)
STARTS = (
    ("Duework, same process", "start_same"),
    ("Duework, other process", "start_other"),
    ("Duework, PostgreSQL", "pg_start_other"),
)


def write() -> None:
    records = history.load()
    (HERE / "charts").mkdir(exist_ok=True)
    (HERE / "README.md").write_text("\n".join(_readme(records)) + "\n")


def _readme(records: Sequence[Record]) -> Iterator[str]:
    text = (HERE / "method.md").read_text()
    shown = history.last(list(records))
    with_peers = history.last(list(records), peers=True)
    for line in text.splitlines():
        if line == "<!-- figures -->":
            yield from _figures(shown)
        elif line == "<!-- peers -->":
            yield from _peers(with_peers)
        elif line == "<!-- charts -->":
            yield from _charts(records, with_peers or shown)
        elif line == "<!-- flame -->":
            yield from _flame()
        else:
            yield line


def _figures(record: Record | None) -> Iterator[str]:
    if record is None:
        yield "There has been no full run yet: `make bench`."
        return
    yield _about(record)
    for name in QUESTIONS:
        scenario: Any = importlib.import_module(f"bench.scenarios.{name}")
        yield from ("", f"### {scenario.QUESTION}", "")
        if why := record.failed.get(name) or record.missing.get(name):
            yield f"Not measured: {why.splitlines()[0]}"
            continue
        yield "| what | median | min–max | ratio | bar | |"
        yield "|---|---:|---:|---:|---:|---|"
        for *cells, met in rows(scenario.FIGURES, record):
            cells[3] = _of(cells[0], cells[3])
            yield f"| {' | '.join(cells)} | {'**not met**' if met == 'NOT MET' else met} |"


def _of(what: str, ratio: str) -> str:
    """A ratio with what it is a ratio to."""
    scenarios = [importlib.import_module(f"bench.scenarios.{name}") for name in QUESTIONS]
    known = {figure.name: figure for each in scenarios for figure in each.FIGURES}
    base = next((figure.base for figure in known.values() if figure.what == what), None)
    return f"{ratio} of {known[base].what}" if ratio and base else ratio


def _about(record: Record) -> str:
    about = record.machine
    state = ", with changes that are in no commit" if record.dirty else ""
    return (
        f"Run of {record.when}, commit `{record.commit}`{state}: {record.repeat} rounds in"
        f" {record.seconds:.0f} s. {about['cores']} cores ({about['processor']}),"
        f" {about['memory_gb']} GB, Linux {about['kernel']}, {about['file_system']}, Python"
        f" {about['python']}, SQLite {about['sqlite']}, PostgreSQL {about['postgres']}. Load before"
        f" it began: {about['load_before']}."
    )


def _peers(record: Record | None) -> Iterator[str]:
    if record is None:
        yield "There has been no full run with peers yet: `make bench`."
        return
    yield from (_about(record), "")
    yield (
        "| | enqueue/s | bulk/s | drain/s | ours ÷ theirs | bar | | start p50 / p99 ms"
        " | from the call, p50 ms | a commit is |"
    )
    yield "|---|---:|---:|---:|---:|---:|---|---:|---:|---|"
    for cells in peer_rows(record):
        yield f"| {' | '.join(cells)} |"
    yield ""
    for text, met in claims(record):
        yield f"* {text}: {'met' if met else '**not met**'}."


def _charts(records: Sequence[Record], record: Record | None) -> Iterator[str]:
    if record is None:
        return
    drawn = {
        "drain": charts.dots(
            "No-op jobs per second, one process unless said otherwise",
            "median, and the range of the samples; logarithmic",
            _rate_dots(record),
        ),
        "start": charts.dots(
            "Milliseconds from enqueue's return to the handler's start",
            "dot: p50, line: up to p99; logarithmic",
            _start_dots(record),
        ),
    }
    ratios = [
        (each.commit[:7], found[0].ratio or 0.0)
        for each in records
        if each.full and (found := results([_drain_figure()], each.samples))
    ]
    if len(ratios) > 1:
        title = "Drain, one process, over the raw SQLite loop of the same run"
        drawn["ratio"] = charts.line(title, "full runs", ratios[-SHOWN_RUNS:], 0.2)
    for name, picture in drawn.items():
        (HERE / "charts" / f"{name}.svg").write_text(picture)
        yield from (f"![{name}](charts/{name}.svg)", "")


def _drain_figure() -> Figure:
    return Figure("drain", "", "/s", against="raw_loop")


def _rate_dots(record: Record) -> list[Dot]:
    wanted = [*RATES, *((peer.name, "peer", f"{peer.slug}:drain") for peer in PEERS)]
    found = []
    for label, kind, name in wanted:
        if samples := record.samples.get(name):
            value = Result(Figure(name, "", "/s"), samples, ()).value
            text = number(value, "/s")
            found.append(Dot(label, kind, value, min(samples), max(samples), text))
    return sorted(found, key=lambda dot: -dot.value)


def _start_dots(record: Record) -> list[Dot]:
    wanted = [
        *((label, "ours", f"{name}_") for label, name in STARTS),
        *((peer.name, "peer", f"{peer.slug}:") for peer in PEERS),
    ]
    found = []
    for label, kind, prefix in wanted:
        samples = record.samples
        if f"{prefix}p50" in samples:
            p50, p99 = (
                max(LEAST_MS, Result(Figure("", "", "ms"), samples[f"{prefix}{part}"], ()).value)
                for part in ("p50", "p99")
            )
            text = f"{number(p50, 'ms')} / {number(p99, 'ms')}"
            found.append(Dot(label, kind, p50, p50, p99, text))
    return sorted(found, key=lambda dot: dot.value)


def _flame() -> Iterator[str]:
    if (HERE / "flame.svg").exists():
        yield "![Where the time of a drain goes](flame.svg)"
    else:
        yield "Not drawn yet: `python -m bench.profile`."


if __name__ == "__main__":
    write()
