"""Pages of apps, asked for once: a page that was stored less than 13 days ago is not asked for again.

Stored pages serve retries, and those who want to know why a page could not be read; they are over after
30 days.
"""

from __future__ import annotations

import functools
from urllib.parse import urlsplit

from duework import Fail, Throttled, UsageError, http
from systems.scout.client import REST, TOO_OFTEN
from systems.scout.economy import ledger
from systems.scout.part import part, settings

KEEP = "30d"
# Less than the 14 days after which an app is looked at again, or it would see its old page.
MAX_AGE = "13d"
BROWSER = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.4 Safari/605.1.15"
GONE = {404, 410}
MOVED = {301, 302, 307, 308}


class Moved(Exception):
    """The page is elsewhere on the same host; to ask there is another call."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the page is at {path}")
        self.path = path


@functools.lru_cache(maxsize=8)
def client(base: str) -> http.Client:
    """One for each address and process."""
    headers = {"user-agent": BROWSER, "accept-language": "en-US,en;q=0.9"}
    return http.Client(base, timeout="20s", headers=headers)


def key(track_id: int) -> str:
    return f"app/{track_id}/page.html"


async def page(track_id: int, known: str | None, *, fresh: bool = False) -> str:
    """The page of an app, from the cache or from Apple; `fresh` asks Apple in any case."""
    stored = None if fresh else await _stored(track_id)
    if stored is not None:
        return stored.decode("utf-8", "replace")
    content = await _asked(track_id, known)
    await _store(track_id, content)
    return content.decode("utf-8", "replace")


async def _asked(track_id: int, known: str | None) -> bytes:
    asked = settings()
    path = urlsplit(known).path if known else f"/{asked.country}/app/id{track_id}"
    await ledger.called("apple")
    try:
        reply = await client(asked.pages_url or asked.apple_url).get(path)
    except http.TooMany as refused:
        raise Throttled(REST) from refused
    if reply.status in TOO_OFTEN:
        raise Throttled(REST)
    if reply.status in MOVED:
        raise Moved(urlsplit(reply.headers.get("location", "")).path)
    if reply.status in GONE:
        raise Fail(f"Scrape failed: {reply.status}")
    if not reply.ok:
        raise http.BadStatus(f"Scrape failed: {reply.status}")
    return reply.content


async def _stored(track_id: int) -> bytes | None:
    try:
        return await part.app.blobs.aget(key(track_id), max_age=MAX_AGE)
    except UsageError:
        return None  # there is no folder for blobs


async def _store(track_id: int, content: bytes) -> None:
    about = {"scraped_at": str(part.app.now())}
    try:
        await part.app.blobs.aput(
            key(track_id), content, ttl=KEEP, content_type="text/html", metadata=about
        )
    except UsageError:
        return  # there is no folder for blobs: it is asked for again
