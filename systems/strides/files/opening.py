"""From bytes to recordings: which format it is, and archives that are opened with care.

Nothing is written to a disk, no length that a file claims is believed, and one dangerous name or one
entry that unpacks to too much refuses the whole archive. An entry that is merely no recording is left out,
and told.
"""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Callable
from datetime import tzinfo
from pathlib import PurePosixPath

import msgspec

from systems.strides.files import fit, xml
from systems.strides.files.recording import Recording
from systems.strides.files.refusals import NotUnderstood, OutsideTheArchive, TooLarge, ZipBomb

# Bytes of one recording when it is unpacked, and of an archive as it comes.
ONE, ARCHIVE = 25_000_000, 200_000_000
ENTRIES, UNPACKED, RATIO = 20_000, 4_000_000_000, 200
ENDINGS = (".fit", ".tcx", ".gpx")
PIECE = 65_536
KIND, LINK = 0o170000, 0o120000
# Called with how many recordings of an archive were read, and how many there are.
Tell = Callable[[int, int], None]


class Found(msgspec.Struct):
    """A recording with its name, and its id at Strava if an export says it."""

    file: str
    recording: Recording
    # Its check sum: the same bytes are the same recording.
    digest: bytes
    strava_id: int | None = None


class Opened(msgspec.Struct):
    found: list[Found]
    # Files that are no recordings, with the reason.
    left_out: dict[str, str]


def silent(_done: int, _total: int) -> None:
    """Nobody wants to know how far it is."""


def opened(name: str, content: bytes, zone: tzinfo | None, tell: Tell = silent) -> Opened:
    """What a file holds."""
    if content[:4] == b"PK\x03\x04":
        return _archive(content, zone, tell)
    return Opened([one(name, content, zone)], {})


def one(name: str, content: bytes, zone: tzinfo | None) -> Found:
    """A single recording, packed or not."""
    if content[:2] == b"\x1f\x8b":
        content = _unpacked(name, content)
    if len(content) > ONE:
        raise TooLarge(f"{_shown(name)} has more than {ONE // 1_000_000} MB: no recording has")
    if content[8:12] == b".FIT":
        return Found(name, fit.read(content), _mark(content))
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        return Found(name, xml.read(content.lstrip(b" \t\r\n"), zone), _mark(content))
    raise NotUnderstood(f"{_shown(name)} is neither FIT, TCX, GPX nor an archive of them")


def _mark(content: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(content).digest()


def _shown(name: str) -> str:
    return repr(name[:80]) if name else "the file"


def _unpacked(name: str, content: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        made = unpacker.decompress(content, ONE + 1)
    except zlib.error:
        raise NotUnderstood(f"{_shown(name)} is a damaged gzip file") from None
    if len(made) > ONE:
        raise ZipBomb(f"{_shown(name)} unpacks to more than {ONE // 1_000_000} MB")
    return made


def _archive(content: bytes, zone: tzinfo | None, tell: Tell) -> Opened:
    if len(content) > ARCHIVE:
        raise TooLarge(f"an archive has at most {ARCHIVE // 1_000_000} MB: send it in parts")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _entries(archive, zone, tell)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError):
        raise NotUnderstood("the archive is damaged, or packed in a way of its own") from None


def _entries(archive: zipfile.ZipFile, zone: tzinfo | None, tell: Tell) -> Opened:
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > ENTRIES:
        raise ZipBomb(f"an archive has at most {ENTRIES:,} files")
    for info in archive.infolist():
        _check_name(info)
    listed = _listed(archive, infos)
    result, total = Opened([], {}), 0
    wanted = [info for info in infos if _is_recording(info.filename)]
    for number, info in enumerate(wanted):
        tell(number, len(wanted))
        content = _entry(archive, info)
        total += len(content)
        if total > UNPACKED:
            raise ZipBomb("the archive unpacks to more than 4 GB")
        try:
            found = one(info.filename, content, zone)
        except NotUnderstood as why:
            result.left_out[info.filename] = str(why)
            continue
        _tell(found, listed.get(info.filename, {}))
        result.found.append(found)
    return result


def _check_name(info: zipfile.ZipInfo) -> None:
    """A name that leads out, or a link: the mode of a link is in the upper half of its attributes."""
    name = info.filename.replace("\\", "/")
    leads_out = name.startswith("/") or ":" in name.split("/")[0] or ".." in name.split("/")
    if leads_out or (info.external_attr >> 16) & KIND == LINK:
        raise OutsideTheArchive(f"{_shown(info.filename)} leads out of the archive")
    if info.flag_bits & 1:
        raise NotUnderstood("the archive is encrypted: unpack it first")


def _is_recording(name: str) -> bool:
    return PurePosixPath(name.lower().removesuffix(".gz")).suffix in ENDINGS


def _entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """What an entry really unpacks to, up to a limit, whatever it says of itself."""
    made = bytearray()
    most = min(ONE, max(PIECE * 16, info.compress_size * RATIO))
    with archive.open(info) as stream:
        while piece := stream.read(PIECE):
            made += piece
            if len(made) > most:
                raise ZipBomb(f"{_shown(info.filename)} unpacks to far more than it is")
    return bytes(made)


def _listed(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo]) -> dict[str, dict[str, str]]:
    """The rows of an export's activities.csv, by the file that each is about."""
    for info in infos:
        if info.filename == "activities.csv":
            text = _entry(archive, info).decode("utf-8", "replace")
            return _rows(text.replace("\0", ""))
    return {}


def _rows(text: str) -> dict[str, dict[str, str]]:
    try:
        return {row.get("Filename") or "": row for row in csv.DictReader(io.StringIO(text))}
    except csv.Error as error:
        raise NotUnderstood(f"activities.csv cannot be read: {error}") from None


def _tell(found: Found, row: dict[str, str]) -> None:
    """Name and id as the export has them."""
    if name := row.get("Activity Name"):
        found.recording.name = name
    identifier = row.get("Activity ID") or ""
    if identifier.isascii() and identifier.isdecimal() and len(identifier) <= 18:  # noqa: PLR2004 - of a bigint
        found.strava_id = int(identifier)
