"""Where contents are: a folder, or an object store by its address.

A content is written once, under a number of its own. It is there whole or not at all: in a folder it has
another name until it is on the disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from duework.db.urls import database_file
from duework.errors import Conflict, UsageError


class Store(Protocol):
    """What blobs need of the place where their contents are."""

    def write(self, content: int, chunks: Iterable[bytes]) -> None: ...

    def open(self, content: int) -> BinaryIO:
        """Raises FileNotFoundError if it is not there."""
        ...

    def remove(self, content: int) -> None:
        """Also if it is not there, or was written in part."""
        ...


class FolderStore:
    """A folder of this machine, or one that all machines share."""

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        self.folder = folder
        # Whether a content has to survive a power cut.
        self._sync = sync

    def __repr__(self) -> str:
        return str(self.folder)

    def write(self, content: int, chunks: Iterable[bytes]) -> None:
        path = self._path(content)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(_unfinished(path), "wb") as file:
            file.writelines(chunks)
            file.flush()
            if self._sync:
                os.fsync(file.fileno())
        try:
            os.replace(_unfinished(path), path)
        except FileNotFoundError:
            message = (
                "what was written is deleted already: it took over an hour; nothing was changed"
            )
            raise Conflict(message) from None
        if self._sync:
            for folder in (path.parent, self.folder, self.folder.parent):
                _sync_folder(folder)

    def open(self, content: int) -> BinaryIO:
        return open(self._path(content), "rb")

    def remove(self, content: int) -> None:
        path = self._path(content)
        for each in (_unfinished(path), path):
            with contextlib.suppress(FileNotFoundError):
                each.unlink()

    def _path(self, content: int) -> Path:
        """Spread over folders: one with a million files is slow to look at."""
        return self.folder / f"{content % 256:02x}" / f"{content:016x}"


def _unfinished(path: Path) -> Path:
    return path.with_suffix(".part")


def _sync_folder(folder: Path) -> None:
    """A name is on the disk when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def store(address: str | None, url: str, *, sync: bool) -> Store:
    """The place that an address names; without one, a folder beside the database's file."""
    if address is None:
        return FolderStore(_beside(url), sync=sync)
    scheme, separator, _ = address.partition("://")
    if not separator:
        return FolderStore(Path(address), sync=sync)
    if scheme == "file":
        return FolderStore(Path(unquote(urlsplit(address).path)), sync=sync)
    if scheme == "s3":
        return remote(address)
    raise UsageError(
        f"blobs are in a folder, a path or file:///…, or in s3://bucket/…: not {scheme}://…"
    )


@functools.cache
def remote(address: str) -> Store:
    """One for each address: it keeps connections."""
    from duework.shapes.blobs.remote import RemoteStore

    return RemoteStore(address)


def _beside(url: str) -> Path:
    if (file := database_file(url)) is None:
        message = (
            "a database on a server has no folder for blobs beside it: name one that all machines"
            " share, App(blobs='/srv/blobs') or DUEWORK_BLOBS=/srv/blobs"
        )
        raise UsageError(message)
    return file.with_suffix(".blobs")


# How much of a stream is in memory at a time.
CHUNK_BYTES = 1 << 20


def chunks_of(data: object) -> Iterator[bytes]:
    """The bytes of whatever `put` takes: bytes, text, an open file, or bytes in pieces."""
    if isinstance(data, str):
        yield data.encode()
    elif isinstance(data, (bytes, bytearray, memoryview)):
        yield bytes(data)
    elif (read := getattr(data, "read", None)) is not None:
        while piece := read(CHUNK_BYTES):
            yield _bytes(piece)
    elif isinstance(data, Iterable):
        for piece in data:
            yield _bytes(piece)
    else:
        raise UsageError(f"a blob is bytes, text, a file or bytes in pieces, not {type(data)}")


def _bytes(piece: object) -> bytes:
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise UsageError(f"the pieces of a blob are bytes, not {type(piece).__name__}")
    return bytes(piece)
