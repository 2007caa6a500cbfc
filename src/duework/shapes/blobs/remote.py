"""Contents in an object store that speaks S3, by its address: `s3://bucket/prefix`, through obstore.

Keys, region and another endpoint are the usual variables of the environment: AWS_ACCESS_KEY_ID and so on. An
upload is there whole or not at all, also one in parts.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

from duework.errors import UsageError

# Contents up to this size are one request; longer ones go in parts of it, and never whole into memory.
PART_BYTES = 8 << 20
_RETRIES = {"max_retries": 3}


def _client() -> dict[str, str | bool]:
    plain = os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"
    return {"timeout": "60s", "connect_timeout": "10s", "allow_http": plain}


class RemoteStore:
    """A bucket, or what is below a prefix of it."""

    def __init__(self, address: str) -> None:
        self._address = address
        try:
            import obstore
            from obstore.exceptions import BaseError, NotFoundError
            from obstore.store import from_url
        except ImportError as error:
            message = f"blobs in {address} need {error.name}: pip install 'duework[blobs]'"
            raise UsageError(message) from error
        self._obstore: Any = obstore
        self._errors, self._missing = BaseError, (NotFoundError, FileNotFoundError)
        with self._failing("opened"):
            self._store: Any = from_url(address, retry_config=_RETRIES, client_options=_client())  # type: ignore[call-overload]

    def __repr__(self) -> str:
        return self._address

    def write(self, content: int, chunks: Iterable[bytes]) -> None:
        parts = _parts(chunks)
        first = next(parts, b"")
        second = next(parts, None)
        with self._failing("written"):
            if second is None:
                self._obstore.put(self._store, _path(content), first, use_multipart=False)
            else:
                pieces = itertools.chain([first, second], parts)
                self._obstore.put(
                    *(self._store, _path(content), pieces),
                    use_multipart=True,
                    chunk_size=PART_BYTES,
                    max_concurrency=2,
                )

    def open(self, content: int) -> BinaryIO:
        with self._failing("read"):
            answer = self._obstore.get(self._store, _path(content))
        return cast("BinaryIO", io.BufferedReader(Received(answer.stream(), self), PART_BYTES))

    def remove(self, content: int) -> None:
        with self._failing("removed"), contextlib.suppress(*self._missing):
            self._obstore.delete(self._store, _path(content))

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._missing as error:
            raise FileNotFoundError(str(error)) from error
        except self._errors as error:
            why = str(error).partition("\n")[0]
            raise OSError(f"a content in {self._address} could not be {what}: {why}") from error

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """An error in this block is one of reading."""
        return self._failing("read")


class Received(io.RawIOBase):
    """What comes of one answer, as a file that is read from its begin to its end."""

    def __init__(self, pieces: Iterator[Any], store: RemoteStore) -> None:
        self._pieces = iter(pieces)
        self._store = store
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._left:
            with self._store.reading():
                piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(bytes(piece))
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _path(content: int) -> str:
    return f"{content % 256:02x}/{content:016x}"


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one size, the last one shorter."""
    kept = bytearray()
    for chunk in chunks:
        kept += chunk
        while len(kept) >= PART_BYTES:
            yield bytes(kept[:PART_BYTES])
            del kept[:PART_BYTES]
    if kept:
        yield bytes(kept)
