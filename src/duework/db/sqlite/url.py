"""What a `sqlite://` URL means."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from duework.db.urls import redacted
from duework.errors import UsageError

FORM = "write sqlite:///work.db, or sqlite:////var/lib/work.db"
# What may follow the question mark.
OPTIONS = {"network": "force"}


def parse(url: str) -> tuple[Path, dict[str, list[str]]]:
    """The file of `sqlite:///relative.db`, `sqlite:////absolute.db`, and the options behind it."""
    parts = urlsplit(url)
    name = unquote(parts.path[1:])
    if parts.netloc or not name.strip("/"):
        raise _unreadable(url, FORM)
    if name.startswith((":memory:", "file:")):
        why = "a database in memory, or a file: URI, cannot be shared with a worker: " + FORM
        raise _unreadable(url, why + ". For tests there is duework.testing.Harness")
    if "\0" in name:
        raise _unreadable(url, "there is a NUL in the path")
    if parts.fragment:
        raise _unreadable(url, "write a # in the path as %23")
    return Path(name).absolute(), _options(url, parts.query)


def _options(url: str, query: str) -> dict[str, list[str]]:
    given = parse_qs(query, keep_blank_values=True)
    for name, values in given.items():
        if name not in OPTIONS:
            known = ", ".join(f"?{each}={value}" for each, value in OPTIONS.items())
            raise _unreadable(url, f"there is no option {name!r}, only {known}")
        if values != [OPTIONS[name]]:
            raise _unreadable(url, f"{name} may only be {OPTIONS[name]!r}")
    return given


def _unreadable(url: str, why: str) -> UsageError:
    return UsageError(f"cannot read {redacted(url)!r}: {why}")
