"""FIT, as watches write it: records with definitions of their own, of which the session is read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime

from systems.strides.files.recording import Recording
from systems.strides.files.refusals import NotUnderstood

# Seconds from 1970 to the end of 1989, where FIT begins to count.
EPOCH = 631_065_600
SESSION, ACTIVITY = 18, 34
STARTED = 2
SPORTS = {0: "Workout", 1: "Run", 2: "Ride", 5: "Swim", 11: "Walk", 17: "Hike"}
# Whole numbers by their base type: the format of struct, and what stands for nothing.
WHOLE = {
    0x00: ("B", 0xFF),
    0x02: ("B", 0xFF),
    0x83: ("h", 0x7FFF),
    0x84: ("H", 0xFFFF),
    0x85: ("i", 0x7FFFFFFF),
    0x86: ("I", 0xFFFFFFFF),
}
NIBBLES = (
    0x0000, 0xCC01, 0xD801, 0x1400, 0xF001, 0x3C00, 0x2800, 0xE401,
    0xA001, 0x6C00, 0x7800, 0xB401, 0x5000, 0x9C01, 0x8801, 0x4400,
)  # fmt: skip
Fields = dict[int, int]


class Definition:
    """How the records of a local number are laid out."""

    def __init__(
        self, number: int, order: str, fields: list[tuple[int, int, int]], more: int
    ) -> None:
        self.number, self.order, self.fields = number, order, fields
        self.size = sum(size for _, size, _ in fields) + more

    def read(self, record: bytes) -> Fields:
        found: Fields = {}
        at = 0
        for field, size, base in self.fields:
            form, nothing = WHOLE.get(base, ("", 0))
            if form and struct.calcsize(form) == size:
                [value] = struct.unpack_from(self.order + form, record, at)
                if value != nothing:
                    found[field] = value
            at += size
        return found


def checksum(content: bytes) -> int:
    crc = 0
    for byte in content:
        for nibble in (byte & 0xF, byte >> 4):
            crc = (crc >> 4) ^ NIBBLES[crc & 0xF] ^ NIBBLES[nibble]
    return crc


def read(content: bytes) -> Recording:
    """The first session of a file."""
    try:
        return _recording(list(_messages(_body(content))))
    except (struct.error, IndexError, KeyError):
        raise NotUnderstood("it is a damaged FIT file: a record is cut off") from None


def _body(content: bytes) -> bytes:
    head = content[0]
    [length] = struct.unpack_from("<I", content, 4)
    end = head + length
    if head not in (12, 14) or len(content) < end + 2:
        raise NotUnderstood("it is a damaged FIT file: it is shorter than it says")
    [said] = struct.unpack_from("<H", content, end)
    if said != checksum(content[:end]):
        raise NotUnderstood("it is a damaged FIT file: its check sum is wrong")
    return content[head:end]


def _messages(body: bytes) -> Iterator[tuple[int, Fields]]:
    known: dict[int, Definition] = {}
    at = 0
    while at < len(body):
        head = body[at]
        at += 1
        if not head & 0x80 and head & 0x40:
            at = _define(body, at, head, known)
            continue
        # A head with its highest bit set carries a time of its own, which sessions do not need.
        definition = known[(head >> 5) & 0x3 if head & 0x80 else head & 0xF]
        record = body[at : at + definition.size]
        at += definition.size
        if definition.number in (SESSION, ACTIVITY):
            yield definition.number, definition.read(record)


def _define(body: bytes, at: int, head: int, known: dict[int, Definition]) -> int:
    order = ">" if body[at + 1] else "<"
    [number] = struct.unpack_from(order + "H", body, at + 2)
    count, at = body[at + 4], at + 5
    fields = [tuple(body[at + 3 * n : at + 3 * n + 3]) for n in range(count)]
    at, more = at + 3 * count, 0
    if head & 0x20:
        extra, at = body[at], at + 1
        more = sum(body[at + 3 * n + 1] for n in range(extra))
        at += 3 * extra
    laid_out = [(field, size, base) for field, size, base in fields]
    known[head & 0xF] = Definition(number, order, laid_out, more)
    return at


def _recording(messages: list[tuple[int, Fields]]) -> Recording:
    sessions = [fields for number, fields in messages if number == SESSION and STARTED in fields]
    if not sessions:
        raise NotUnderstood("it is a FIT file without a session: no recording")
    first = sessions[0]
    return Recording(
        start=datetime.fromtimestamp(first[STARTED] + EPOCH, UTC),
        sport=SPORTS.get(first.get(5, 0), "Workout"),
        elapsed=first.get(7, 0) / 1000,
        moving=first.get(8, first.get(7, 0)) / 1000,
        distance=first.get(9, 0) / 100,
        average_heartrate=first.get(16),
        max_heartrate=first.get(17),
        climbed=first.get(22),
        offset=_offset(messages),
    )


def _offset(messages: list[tuple[int, Fields]]) -> int | None:
    """Minutes between the wall clock and UTC, if the watch says both."""
    for number, fields in messages:
        if number == ACTIVITY and {5, 253} <= fields.keys():
            minutes = round((fields[5] - fields[253]) / 60)
            return minutes if abs(minutes) < 24 * 60 else None
    return None
