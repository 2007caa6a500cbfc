"""PROOF.md: what was done, what was seen, and what is not promised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proof.section import Result

# What holds for every section; sections add what their own runs have shown.
NOT_PROMISED = (
    "What a task does to the outside world happens at least once; what it writes through its run, once.",
    "A disk that says it has written what it has not loses what it likes.",
    "SQLite on a network file system is refused, and not proved.",
    "A PostgreSQL standby that does not confirm commits may lose the last of them at a failover.",
    "A thread cannot be killed: a task in one that never ends holds it until the process is replaced.",
)


@dataclass(frozen=True)
class Entry:
    """One section and what came of it."""

    name: str
    title: str
    promise: str
    result: Result
    seconds: float
    when: str
    commit: str


@dataclass(frozen=True)
class About:
    """Where and how a proof was run."""

    scale: str
    machine: dict[str, str]


def verdict(entry: Entry) -> str:
    problems = len(entry.result.problems())
    return "holds" if not problems else f"{problems} problem{'s' if problems > 1 else ''}"


def number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def page(about: About, entries: Sequence[Entry], missing: Sequence[str] = ()) -> str:
    """The whole page; `missing` are titles of sections of which there is no result."""
    return "\n".join(_lines(about, entries, missing)) + "\n"


def _lines(about: About, entries: Sequence[Entry], missing: Sequence[str]) -> Iterator[str]:
    yield "# Proof"
    yield ""
    yield "What the engine was put through, and what came of it. Written by `make proof`, never by hand;"
    yield "what each section does is in [proof/README.md](proof/README.md)."
    yield ""
    where = ", ".join(f"{name} {value}" for name, value in about.machine.items())
    took = sum(entry.seconds for entry in entries)
    yield f"- Scale {about.scale}. Took {_duration(took)} in all. Machine: {where}."
    planted = [found for entry in entries for found in entry.result.planted.values()]
    yield f"- Bugs put in on purpose: {len(planted)}, found: {sum(planted)}."
    yield ""
    yield "| section | holds | run at | commit | took | planted bugs found |"
    yield "|---|---|---|---|---|---|"
    for entry in entries:
        own = entry.result.planted.values()
        yield (
            f"| [{entry.title}](#{_anchor(entry.title)}) | {verdict(entry)}"
            f" | {entry.when} | {entry.commit} | {_duration(entry.seconds)} | {sum(own)} of {len(own)} |"
        )
    yield from (f"| {title} | not run at this scale | | | | |" for title in missing)
    for entry in entries:
        yield from _section(entry)
    yield from ("", "## What is not promised", "")
    own_words = [word for entry in entries for word in entry.result.not_promised]
    yield from (f"- {word}" for word in (*NOT_PROMISED, *own_words))


def _section(entry: Entry) -> Iterator[str]:
    result = entry.result
    yield from ("", f"## {entry.title}", "", f"Promised: {entry.promise}", "")
    yield f"`python -m proof.run --only {entry.name} --seed {result.seed}`: {verdict(entry)}."
    yield from ("", "| what happened | count | at least |", "|---|---:|---:|")
    for name, value in result.counts.items():
        least = result.floors.get(name)
        yield f"| {_cell(name)} | {_cell(number(value))} | {'' if least is None else number(least)} |"
    if result.planted:
        yield from ("", "Put in on purpose:", "")
        for name, found in result.planted.items():
            yield f"- {name}: {'found' if found else '**not found**'}"
    if result.notes:
        yield ""
        yield from (f"- {note}" for note in result.notes)
    if problems := result.problems():
        yield from ("", "**Problems:**", "")
        yield from (f"- {problem}" for problem in problems[:50])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(title: str) -> str:
    kept = "".join(each for each in title.lower() if each.isalnum() or each in " -_")
    return kept.strip().replace(" ", "-")


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"
