"""What a `sqlite://` URL means."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from duework.errors import UsageError


def parse(url: str) -> tuple[Path, dict[str, list[str]]]:
    """The file of `sqlite:///relative.db`, `sqlite:////absolute.db`."""
    parts = urlsplit(url)
    if parts.netloc or not parts.path.strip("/"):
        message = f"cannot read {url!r}: write sqlite:///work.db, or sqlite:////var/lib/work.db"
        raise UsageError(message)
    return Path(unquote(parts.path[1:])).absolute(), parse_qs(parts.query, keep_blank_values=True)
