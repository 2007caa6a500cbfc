"""What the other side answered: a status, headers, a bounded body, and how long it wants to be left alone."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from duework.clock import as_ms
from duework.errors import BadStatus, HttpError, LostReply, ReplyTooLarge
from duework.kernel.outcomes import Throttled

if TYPE_CHECKING:
    import httpx2

# For one who said "too many" and not for how long; and the longest that anybody is believed.
DEFAULT_WAIT_MS = 60_000
LONGEST_WAIT_MS = 7 * 86_400_000
TOO_MANY, UNAVAILABLE = 429, 503
# zlib's own number for "with the header of gzip".
_GZIP = 16 + zlib.MAX_WBITS


class Response:
    """An answer that was read to its end."""

    def __init__(self, status: int, headers: httpx2.Headers, content: bytes, asked: str) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        # The method and the address, without what is secret in it.
        self.asked = asked

    def __repr__(self) -> str:
        return f"<Response {self.status}, {len(self.content)} bytes>"

    @property
    def ok(self) -> bool:
        """Whether the status is one of success."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self, type: Any = Any) -> Any:  # noqa: A002 - as msgspec calls it
        """The body as JSON; as `type`, if one is given. `HttpError` if it is neither."""
        try:
            return msgspec.json.decode(self.content, type=type)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            # What msgspec says names places and types, and no values.
            raise HttpError(f"{self.asked} answered with something else: {error}") from None

    def check(self) -> Response:
        """Itself, if the status is one of success; else `BadStatus`."""
        if not self.ok:
            raise StatusError(self)
        return self


class StatusError(BadStatus):
    """The other side answered, but not with success; the answer is in `response`."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"{response.asked} answered {response.status}")
        self.response = response


class TooMany(Throttled):
    """The other side said to slow down; what it answered is in `response`, for quotas to look at."""

    def __init__(self, wait_ms: int, response: Response) -> None:
        super().__init__(wait_ms / 1000)
        self.response = response


def throttle(response: Response, now: int) -> None:
    """Raise `Throttled` for an answer that asks for it."""
    wait = wait_ms(response.headers, now)
    if response.status == TOO_MANY or (response.status == UNAVAILABLE and wait is not None):
        raise TooMany(DEFAULT_WAIT_MS if wait is None else wait, response)


def wait_ms(headers: httpx2.Headers, now: int) -> int | None:
    """What `Retry-After` asks for, as seconds or as a date; None if it says nothing that makes sense."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        found = round(float(text) * 1000)
    except (ValueError, OverflowError):
        when = _date(text)
        if when is None:
            return None
        # The other side's own clock is the one that its date is meant by.
        said = _date(headers.get("date", ""))
        found = max(0, when - (now if said is None else said))
    return min(found, LONGEST_WAIT_MS) if found >= 0 else None


def _date(text: str) -> int | None:
    try:
        return as_ms(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None


async def read_body(
    stream: AsyncIterable[bytes], headers: httpx2.Headers, limit: int, asked: str
) -> bytes:
    """The body, unpacked, but never more of it than the limit: not even of what a small one becomes."""
    announced = headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > limit:
        raise ReplyTooLarge(f"{asked} answered with more than {limit} bytes")
    unpack = zlib.decompressobj(_GZIP) if _is_packed(headers) else None
    body = bytearray()
    async for piece in stream:
        try:
            body += piece if unpack is None else unpack.decompress(piece, limit + 1 - len(body))
        except zlib.error:
            raise LostReply(f"{asked} answered with a body that cannot be unpacked") from None
        if len(body) > limit:
            raise ReplyTooLarge(f"{asked} answered with more than {limit} bytes")
    if unpack is not None and body and not unpack.eof:
        raise LostReply(f"{asked} answered with half a body")
    return bytes(body)


def _is_packed(headers: httpx2.Headers) -> bool:
    return headers.get("content-encoding", "").strip().lower() in {"gzip", "x-gzip"}
