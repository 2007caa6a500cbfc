"""Blobs by HTTP: which there are, and contents that fit into a body."""

from __future__ import annotations

from duework.errors import PayloadTooLarge, UsageError
from duework.shapes.blobs.verbs import Blob
from duework.web.api.operation import (
    BASE,
    Answer,
    Ask,
    Operation,
    line_of,
    noted,
    page_of,
    place_of,
    reads,
)
from duework.web.api.record_types import BlobContent, BlobLine, BlobMade, BlobQuery, PutBlob
from duework.web.api.types import Acted, Listed

# What base64 makes a third longer; larger ones are read beside the database.
LARGEST = 3_000_000


def blobs(ask: Ask) -> Listed[BlobLine]:
    """Blobs by key, without their contents."""
    wanted: BlobQuery = ask.query
    after = place_of(wanted.cursor, str, "")
    found = ask.app.blobs.list(wanted.prefix, after=after, limit=wanted.limit)
    return page_of(found, wanted.limit, _line, lambda each: each.key)


def blob(ask: Ask) -> BlobLine:
    """One blob without its content."""
    return _line(ask.app.blobs.info(ask.path["key"]))


def content(ask: Ask) -> BlobContent:
    """One blob with its content; of up to 3 MB."""
    ask.refuse_without_payloads()
    found = ask.app.blobs.info(ask.path["key"])
    if found.size > LARGEST:
        raise PayloadTooLarge(f"blob {found.key!r:.100} has {found.size:,} bytes, over {LARGEST:,}")
    return line_of(BlobContent, found, base64=ask.app.blobs.get(found.key) or b"")


def _line(seen: Blob) -> BlobLine:
    return line_of(BlobLine, seen)


def put(ask: Ask) -> Answer:
    """Store a blob; what was there under that key is replaced, unless `if_absent` says otherwise."""
    wanted: PutBlob = ask.body
    if (wanted.text is None) == (wanted.base64 is None):
        raise UsageError("give the content as `text` or as `base64`")
    data = wanted.base64 if wanted.text is None else wanted.text
    assert data is not None
    key = ask.path["key"]

    def act() -> Blob:
        return ask.app.blobs.put(
            key,
            data,
            ttl=wanted.ttl,
            content_type=wanted.content_type,
            metadata=wanted.metadata,
            if_absent=wanted.if_absent,
        )

    made = noted(ask, "put", f"blob {key}", act)
    status = 201 if made.new else 200
    return Answer(line_of(BlobMade, made), status, f"{BASE}/blobs/{made.key}")


def delete(ask: Ask) -> Acted:
    """Delete a blob."""
    key = ask.app.blobs.info(ask.path["key"]).key
    noted(ask, "delete", f"blob {key}", lambda: ask.app.blobs.delete(key))
    return Acted(key, "deleted")


# A key may have slashes in it.
_ONE = "/blobs/{key:any}"
OPERATIONS = (
    reads("/blobs", blobs, Listed[BlobLine], BlobQuery),
    reads("/contents/{key:any}", content, BlobContent),
    reads(_ONE, blob, BlobLine),
    Operation("PUT", _ONE, "operate", put, BlobMade, body=PutBlob, statuses=(201, 200)),
    Operation("DELETE", _ONE, "operate", delete, Acted),
)
