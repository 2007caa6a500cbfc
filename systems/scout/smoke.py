"""Does a deployed scout answer? `python -m systems.scout.smoke URL`, with a token in SCOUT_TOKEN.

A line for each check, PASS or FAIL with its name and the HTTP status; exit code 1 if any fails. It needs
nothing but Python's own library, and only reads.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

CHECKS = {
    "health": "/v1/health",
    "crawl status": "/v1/crawl/status",
    "enrichment status": "/v1/enrichment/status",
}
SECONDS = 10
OK = 200


@dataclass(frozen=True)
class Result:
    """What one address answered: its status, 0 if there was none."""

    name: str
    path: str
    status: int
    passed: bool

    def __str__(self) -> str:
        word = "PASS" if self.passed else "FAIL"
        return f"{word}  {self.name:<18} {self.status or 'no answer'}  {self.path}"


def look(url: str, token: str = "") -> Iterator[Result]:
    """Ask each of them once."""
    for name, path in CHECKS.items():
        status, body = _get(url.rstrip("/") + path, token)
        yield Result(name, path, status, status == OK and _is_object(body))


def _get(url: str, token: str) -> tuple[int, bytes]:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ValueError(f"{url} is no address: write http://127.0.0.1:8377")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    asked = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:  # noqa: S310 - checked above
            return answer.status, answer.read(1 << 20)
    except urllib.error.HTTPError as error:
        return error.code, b""
    except OSError:
        return 0, b""


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def run(url: str, token: str, say: Callable[[str], object]) -> int:
    """Say what was found; the exit code."""
    try:
        results = []
        for each in look(url, token):
            say(str(each))
            results.append(each)
    except ValueError as error:
        say(str(error))
        return 2
    failed = sum(not each.passed for each in results)
    say(f"{failed} of {len(results)} checks failed" if failed else f"all {len(results)} passed")
    return 1 if failed else 0


def main(words: list[str]) -> int:
    if len(words) != 1:
        print("usage: python -m systems.scout.smoke http://127.0.0.1:8377", file=sys.stderr)  # noqa: T201
        return 2
    return run(words[0], os.environ.get("SCOUT_TOKEN", ""), print)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
