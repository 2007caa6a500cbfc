"""The key ring: keys that seal and open secrets, in a file or in the environment, and never in the database.

The first key seals, every one opens. It comes from `App(secrets_key=…)`, from DUEWORK_KEY (base64, several
separated by commas), from the file that DUEWORK_KEY_FILE names (a key a line), or from a file beside a SQLite
database, which is made when the first secret is sealed. A file is for its owner alone.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import hashlib
import os
import secrets as randomness
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from duework.db.urls import database_file
from duework.errors import SecretsError

KEY, KEY_FILE = "DUEWORK_KEY", "DUEWORK_KEY_FILE"
SIZE = 32
_SIGN = hashlib.sha256(b"duework key").digest()
_ID_DIGITS = 12
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MAKE = "openssl rand -base64 32"


def new_key() -> str:
    return base64.b64encode(randomness.token_bytes(SIZE)).decode()


@dataclass(frozen=True)
class Key:
    id: str
    raw: bytes = field(repr=False)


@dataclass(frozen=True)
class KeyRing:
    """Keys in their order, and the file that they are from, if they are from one."""

    keys: tuple[Key, ...]
    file: Path | None = None

    @property
    def first(self) -> Key:
        return self.keys[0]

    def find(self, key: str) -> Key:
        for each in self.keys:
            if each.id == key:
                return each
        raise SecretsError(
            f"the secret was sealed with the key {key}, which is not among those given"
            f" ({', '.join(each.id for each in self.keys)}): put it back, after the first one"
        )


def key_ring(url: str, given: str | None) -> KeyRing | None:
    """The keys for a database; None if their file is still to be made."""
    text = given or os.environ.get(KEY)
    if text:
        return KeyRing(_read(text.replace(",", "\n"), "DUEWORK_KEY"))
    if named := os.environ.get(KEY_FILE):
        file = Path(named)
        if (found := _from_file(file)) is None:
            raise SecretsError(
                f"the key file {file} is not there: put the one back that sealed what is in the database,"
                f" or, for a database without secrets, make one: (umask 077; {_MAKE} > {file})"
            )
        return found
    beside = _beside(url)
    if beside is None:
        raise SecretsError(
            f"there is no key for secrets: name a file in {KEY_FILE}, or put a key into {KEY}."
            f" One is made by: {_MAKE}. All processes need the same"
        )
    return _from_file(beside)


def missing(url: str) -> SecretsError:
    """What to say if secrets are there, and the file that opens them is not."""
    return SecretsError(
        f"the key file {_beside(url)} is gone, and without it no secret can be opened:"
        f" put it back from a backup, or name it in {KEY_FILE}"
    )


def make_file(url: str) -> None:
    """Make the key of a database that has no secrets yet; of several who try, one does."""
    file = _beside(url)
    assert file is not None, "who asks has looked"
    _put(file, f"{new_key()}\n", os.link)


def add_key(ring: KeyRing) -> None:
    """A new first key, on the disk before anything is sealed with it; others' new ones stay."""
    assert ring.file is not None
    with _locked(ring.file) as text:
        _put(ring.file, f"{new_key()}\n{text}", os.replace)


def _beside(url: str) -> Path | None:
    database = database_file(url)
    return None if database is None else database.with_name(f"{database.name}.key")


def _from_file(file: Path) -> KeyRing | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    if found.st_mode & _OTHERS:
        raise SecretsError(f"others can read or change the key file {file}: chmod 600 {file}")
    return _loaded(file, (found.st_ino, found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=16)
def _loaded(file: Path, _version: tuple[int, int, int]) -> KeyRing:
    """Read again when it was changed, by whichever process."""
    return KeyRing(_read(file.read_text(), str(file)), file)


def _read(text: str, where: str) -> tuple[Key, ...]:
    keys = [_key(line.strip(), where) for line in text.splitlines() if line.strip()]
    if not keys:
        raise SecretsError(f"there is no key in {where}; one is made by: {_MAKE}")
    return tuple(dict.fromkeys(keys))


def _key(text: str, where: str) -> Key:
    try:
        raw = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != SIZE:
        # The text itself is never part of a message.
        raise SecretsError(f"a key in {where} is not {SIZE} bytes in base64: {_MAKE}")
    return Key(hashlib.sha256(_SIGN + raw).hexdigest()[:_ID_DIGITS], raw)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[str]:
    """The text of the file, which nobody else replaces meanwhile."""
    while True:
        with file.open() as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            # Whoever had the lock before may have put another file in its place.
            if os.fstat(opened.fileno()).st_ino == file.stat().st_ino:
                yield opened.read()
                return


def _put(file: Path, text: str, place: object) -> None:
    """Write a file of the owner's own beside, and give it its name when it is whole and on the disk."""
    draft = file.with_name(f".{file.name}.{randomness.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(handle)
        with contextlib.suppress(FileExistsError):
            place(draft, file)  # type: ignore[operator]
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
