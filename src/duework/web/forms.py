"""What a form sends: its fields, and its files where the action takes some.

Everything is bounded before it is kept. A file goes to a temporary one without a name, which ends with the
request or with the process, so that a crash leaves nothing of it.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from duework.face import Upload

# Bytes and number of the fields of a form, and its files.
BODY = 64 * 1024
FIELDS = 300
FILES = 100
LONGEST_NAME = 200
PLAIN, WITH_FILES = "application/x-www-form-urlencoded", "multipart/form-data"
CUT = "The form was cut off on its way: send it again. Nothing of it was kept."

Fields = list[tuple[str, str]]


@dataclass
class PostedForm:
    """A form as it came: texts, and files by the names of their fields."""

    fields: Fields = field(default_factory=list)
    files: list[tuple[str, Upload]] = field(default_factory=list)
    _open: list[BinaryIO] = field(default_factory=list)

    def add(self, name: str, given: UploadFile) -> None:
        """One file; what a browser sends for an input where nothing was chosen is none."""
        self._open.append(given.file)
        if given.filename or given.size:
            opened = partial(_reader, given.file)
            self.files.append((name, Upload(file_name(given.filename), given.size or 0, opened)))

    def close(self) -> None:
        """The files are over."""
        for each in self._open:
            each.close()


async def read_form(request: Request, most: int | None) -> PostedForm:
    """The form; with files, of at most `most` bytes in all, unless that is None."""
    media = request.headers.get("content-type", PLAIN).partition(";")[0].strip().lower()
    if media == WITH_FILES and most is not None:
        return await _with_files(request, most)
    if media != PLAIN:
        raise HTTPException(415, f"Send a form: {PLAIN}{f' or {WITH_FILES}' if most else ''}.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY:
            raise HTTPException(413, f"A form has at most {BODY:,} bytes.")
    try:
        return PostedForm(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS))
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error


class _Parser(MultiPartParser):
    """Starlette's parser, which takes what ends without its last boundary for whole."""

    ended = False

    def on_end(self) -> None:
        self.ended = True

    def close(self) -> None:
        """Close every file, that of a part which did not end, too."""
        for each in self._files_to_close_on_error:
            each.close()


async def _with_files(request: Request, most: int) -> PostedForm:
    _check_charset(request)
    parser = _Parser(
        *(request.headers, _bounded(request, most)),
        max_files=FILES,
        max_fields=FIELDS,
        max_part_size=BODY,
    )
    try:
        items = (await parser.parse()).multi_items()
    except MultiPartException as error:
        raise HTTPException(400, f"The form cannot be read: {error.message}") from error
    except ClientDisconnect as error:
        raise HTTPException(400, CUT) from error
    except OSError as error:
        words = f"There is no room here for what was sent: {os.strerror(error.errno or 0)}."
        raise HTTPException(507, words) from error
    sent = _sorted(items)
    if parser.ended and sum(len(name) + len(text) for name, text in sent.fields) <= BODY:
        return sent
    parser.close()
    if not parser.ended:
        raise HTTPException(400, CUT)
    raise HTTPException(413, f"The fields of a form have at most {BODY:,} bytes.")


def _sorted(items: Iterable[tuple[str, str | UploadFile]]) -> PostedForm:
    sent = PostedForm()
    for name, value in items:
        if isinstance(value, UploadFile):
            sent.add(name, value)
        else:
            sent.fields.append((name, value))
    return sent


def _check_charset(request: Request) -> None:
    """Browsers name none; some of those that could be named take very long to decode."""
    _, options = parse_options_header(request.headers["content-type"])
    if options.get(b"charset", b"utf-8").lower() not in {b"utf-8", b"utf8"}:
        raise HTTPException(400, "A form is in UTF-8.")


async def _bounded(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """The body, refused by what it says of itself, or where it gets too long."""
    refusal = HTTPException(413, f"A form has at most {most:,} bytes with its files.")
    said = request.headers.get("content-length", "0")
    if said.isascii() and said.isdigit() and int(said[:20]) > most:
        raise refusal
    seen = 0
    async for chunk in request.stream():
        seen += len(chunk)
        if seen > most:
            raise refusal
        yield chunk


def file_name(given: str | None) -> str:
    """The last piece of a name, without what cannot be shown; never a path, never nothing."""
    last = re.split(r"[/\\]", given or "")[-1]
    shown = "".join(each for each in last if each.isprintable()).strip()
    return shown[-LONGEST_NAME:] if shown.strip(". ") else "file"


class _Reading(io.RawIOBase):
    """Reads a file that others read, too, and leaves it open."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._file.seek(self._at)
        piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == io.SEEK_CUR:
            offset, whence = offset + self._at, io.SEEK_SET
        self._at = self._file.seek(offset, whence)
        return self._at


def _reader(file: BinaryIO) -> BinaryIO:
    return io.BufferedReader(_Reading(file))
