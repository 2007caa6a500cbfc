"""Blobs as users hold them: `app.blobs`; and what the housekeeping does for them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import msgspec

from duework.averbs import Verbs, averb
from duework.clock import FOREVER
from duework.codec import encode
from duework.durations import Duration, milliseconds
from duework.errors import Conflict, Gone, NotFound, UsageError
from duework.shapes.blobs import SHAPE, verbs
from duework.shapes.blobs.stores import Store, chunks_of, store
from duework.shapes.blobs.verbs import BLOBS, Blob, NewBlob
from duework.shapes.shape import CHUNK, Hooks, Shape

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.wiring import Wiring

MOST_KEY = 1000
MOST_ABOUT = 10_000
TEXT, BYTES = "text/plain; charset=utf-8", "application/octet-stream"

Data = bytes | bytearray | memoryview | str | BinaryIO | Iterable[bytes]


class Blobs(Verbs):
    """The blobs of one App: large things by key, with an end if they are given one."""

    def put(
        self,
        key: str,
        data: Data,
        *,
        ttl: Duration | None = None,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
    ) -> Blob:
        """Store a blob, durable when this returns; with `if_absent` only if there is none.

        `data` is bytes, text, an open file or bytes in pieces. Others see what was there before, or all
        of this. It is over after `ttl`.
        """
        _check_key(key)
        about = _about(metadata)
        end = None if ttl is None else _positive(ttl)
        if if_absent and (there := self._find(key)) is not None:
            return there
        content, written = self._write(data)
        now = self.now()
        kind = content_type or (TEXT if isinstance(data, str) else BYTES)
        due = FOREVER if end is None else now + end
        row = NewBlob(key, content, written.size, written.digest, kind, about, now, due, if_absent)
        try:
            return self.engine.writer.call(verbs.put, [row])[0]
        except Conflict:
            # It came too late, and its number is forgotten: what was written has no owner.
            self._removed(content)
            raise

    def get(self, key: str, *, max_age: Duration | None = None) -> bytes | None:
        """The content; None if there is no such blob, or it is older than `max_age`."""
        found = self._find(key, max_age)
        if found is None:
            return None
        with self._open(found) as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != found.digest:
            raise Gone(f"the content of blob {key!r} in {self._store!r} is not what was put there")
        return content

    def open(self, key: str, *, max_age: Duration | None = None) -> BinaryIO:
        """The content as a file, for what does not fit into memory; `NotFound` if there is none."""
        return self._open(self._must(key, max_age))

    def info(self, key: str) -> Blob:
        """Size, digest, times and metadata; `NotFound` if there is no such blob."""
        return self._must(key, None)

    def exists(self, key: str, *, max_age: Duration | None = None) -> bool:
        """Whether there is one, no older than `max_age`."""
        return self._find(key, max_age) is not None

    def delete(self, key: str) -> bool:
        """Take a blob away; whether there was one."""
        _check_key(key)
        return self.engine.writer.call(verbs.delete, [(key, self.now())])[0]

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Blob]:
        """Blobs by key; `after` is the last key of the page before."""
        values = {"prefix": prefix, "after": after, "length": len(prefix), "wanted": limit}
        with self.engine.database.reading() as tx:
            return [
                verbs.blob(row) for row in tx.query(BLOBS.listed, {**values, "now": self.now()})
            ]

    aput = averb(put)
    aget = averb(get)
    ainfo = averb(info)
    aexists = averb(exists)
    adelete = averb(delete)
    alist = averb(list)  # noqa: A003 - the method above

    def collect(self) -> None:
        """End what is over, and delete contents that no blob has; a small transaction each."""
        now = self.now()
        with self.engine.database.reading() as tx:
            if not tx.query(BLOBS.anything_due, {"now": now})[0][0]:
                return
        while (
            self.engine.writer.call(partial(_end_over, now=now), [None], patience=None)[0] >= CHUNK
        ):
            pass
        while self._empty_trash(now) >= CHUNK:
            pass

    # --- inside

    @property
    def _store(self) -> Store:
        bound = self.wiring.bound
        return store(bound.blobs, bound.url, sync=bound.durability == "power")

    def _write(self, data: Data) -> tuple[int, Measured]:
        engine, place = self.engine, self._store
        content, until = engine.ids.draw(), self.now() + verbs.WRITING_MS
        engine.writer.call(verbs.begin, [(content, until)])
        measured = Measured(data)
        place.write(content, measured)
        return content, measured

    def _find(self, key: str, max_age: Duration | None = None) -> Blob | None:
        _check_key(key)
        now = self.now()
        with self.engine.database.reading() as tx:
            rows = tx.query(BLOBS.find, {"name": key, "now": now})
        found = verbs.blob(rows[0]) if rows else None
        if found is not None and max_age is not None:
            return found if found.created > now - milliseconds(max_age) else None
        return found

    def _must(self, key: str, max_age: Duration | None) -> Blob:
        if (found := self._find(key, max_age)) is None:
            raise NotFound(f"there is no blob {key!r}")
        return found

    def _open(self, found: Blob) -> BinaryIO:
        with contextlib.suppress(FileNotFoundError):
            return self._store.open(found.content)
        message = (
            f"the content of blob {found.key!r} is not in {self._store!r}: has the folder been moved,"
            " or does another machine have it? DUEWORK_BLOBS names it"
        )
        raise Gone(message)

    def _empty_trash(self, now: int) -> int:
        """Delete contents for good: first nobody may keep them, then they go, then their rows do."""
        writer = self.engine.writer
        doomed: list[int] = writer.call(partial(doom, now=now), [None], patience=None)[0]
        gone = [content for content in doomed if self._removed(content)]
        if gone:
            writer.call(_forget, gone, patience=None)
        # What could not be removed is tried again in a minute.
        return len(doomed) if len(gone) == len(doomed) else 0

    def _removed(self, content: int) -> bool:
        try:
            self._store.remove(content)
        except OSError:
            return False
        return True


class Measured:
    """The pieces of a content as they go by: how much it was, and its digest."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._hash = hashlib.sha256()
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in chunks_of(self._data):
            self._hash.update(piece)
            self.size += len(piece)
            yield piece

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class BlobKeeping(Hooks):
    """What the engine calls of blobs: the housekeeping, a job of its own."""

    shape: ClassVar[Shape] = SHAPE

    def bind(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def prune(self) -> None:
        self._wiring.find(Blobs).collect()


def _end_over(tx: Tx, items: Sequence[None], now: int) -> list[int]:
    return [verbs.end_over(tx, now, CHUNK) for _ in items]


def doom(tx: Tx, items: Sequence[None], now: int) -> list[list[int]]:
    """Contents that nobody may keep from now on."""
    values = {"now": now, "wanted": CHUNK}
    return [[row[0] for row in tx.query(BLOBS.doom, values)] for _ in items]


def _forget(tx: Tx, contents: Sequence[int]) -> list[None]:
    tx.query(BLOBS.forget, {"contents": list(contents)})
    return [None] * len(contents)


def _check_key(key: Any) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= MOST_KEY or not key.isprintable():
        message = f"a blob's key is text of 1 to {MOST_KEY} printable characters, not {key!r:.100}"
        raise UsageError(message)


def _positive(ttl: Duration) -> int:
    if (length := milliseconds(ttl)) <= 0:
        raise UsageError(f"ttl= is how long a blob is kept, more than nothing: not {ttl!r}")
    return length


def _about(metadata: Mapping[str, str] | None) -> str:
    try:
        given = msgspec.convert(dict(metadata or {}), dict[str, str])
    except (msgspec.ValidationError, TypeError, ValueError):
        raise UsageError("metadata= is a dict of texts") from None
    if len(text := encode(given)) > MOST_ABOUT:
        raise UsageError(f"metadata= is over {MOST_ABOUT} characters: put it into the blob")
    return text
