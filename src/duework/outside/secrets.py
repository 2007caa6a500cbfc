"""Secrets in the database, sealed with a key that is not: tokens of users, passwords of servers.

    app.secrets.seal("pat:7", token)
    app.secrets.open("pat:7")            # in a task: run.secret("pat:7")
    tx.seal("pat:7", token)              # with the row that it belongs to, in one commit

AES-256-GCM with a random nonce; the name and the key's id are authenticated with the value, so that a row
that was changed, or put in another's place, does not open. What was opened is taken out of stored errors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from duework.averbs import averb
from duework.db.database import Tx
from duework.db.queries import load
from duework.errors import NotFound, SecretsError, UsageError
from duework.kernel.engine import Engine
from duework.kernel.error_text import hide
from duework.outside.extra import extra
from duework.outside.keys import KEY, Key, KeyRing, add_key, key_ring, make_file, missing

SQL = load("duework.outside", "secrets")
NAME_LIMIT = 200
VALUE_LIMIT = 64 * 1024
NONCE = 12
# Rows that one transaction of a rotation seals anew.
CHUNK = 200


class NewSecret(msgspec.Struct, frozen=True):
    """A secret on its way into the database; None forgets it."""

    name: str
    value: str | None

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.value is not None:
            _check_value(self.name, self.value)

    def __repr__(self) -> str:
        return f"NewSecret({self.name!r})"


class Secrets:
    """The secrets of an App: `app.secrets`."""

    def __init__(self, url: str, key: str | None, engine: Callable[[], Engine]) -> None:
        self._url = url
        self._key = key
        self._engine = engine

    def __repr__(self) -> str:
        return "<Secrets>"

    def seal(self, name: str, value: str) -> None:
        """Store a value under a name, in place of one that is there."""
        engine = self._engine()
        engine.writer.call(self.write, [NewSecret(name, value)])

    def open(self, name: str) -> str:
        """The value of a name; `NotFound` without one, `SecretsError` if it cannot be opened."""
        _check_name(name)
        rows = self._engine().database.ask(SQL.sealed, {"name": name})
        if not rows:
            raise NotFound(f"there is no secret {name!r}")
        key, sealed = rows[0]
        value = _opened(self._ring(), name, key, bytes(sealed))
        hide(value)
        return value

    def forget(self, name: str) -> bool:
        """Delete a secret; whether there was one."""
        return bool(self._engine().writer.call(self.write, [NewSecret(name, None)])[0])

    def names(self, prefix: str = "") -> list[str]:
        """The names of all that are sealed, or of those that begin so, in order."""
        values = {"prefix": prefix, "length": len(prefix)}
        return sorted(row[0] for row in self._engine().database.ask(SQL.names, values))

    def rotate(self) -> int:
        """Seal everything anew with the first key; how many secrets that were.

        If the first key has sealed everything already, a new one is put before it in the key file. A rotation
        that was killed goes on where it was. Older keys stay in the file, for backups that need them.
        """
        ring = self._ring()
        if not self._others(ring):
            if ring.file is None:
                raise UsageError(
                    f"everything is sealed with the first key of {KEY}: put a new one before it"
                )
            add_key(ring)
            ring = self._ring()
        engine, count = self._engine(), 0
        while moved := engine.writer.call(self._reseal, [ring], patience=None)[0]:
            count += moved
        return count

    aseal = averb(seal)
    aopen = averb(open)  # noqa: A003 - the verb of above
    aforget = averb(forget)
    anames = averb(names)
    arotate = averb(rotate)

    def write(self, tx: Tx, new: list[NewSecret]) -> Sequence[bool]:
        """Seal or forget, in somebody's transaction; whether something was there to be forgotten."""
        answers = []
        for each in new:
            if each.value is None:
                answers.append(bool(tx.query(SQL.forget, {"name": each.name})))
            else:
                self._put(tx, self._ring_to_seal(tx).first, each.name, each.value)
                answers.append(True)
        return answers

    def _put(self, tx: Tx, key: Key, name: str, value: str) -> None:
        sealed = _seal(key, name, value)
        now = self._engine().clock.now()
        tx.query(SQL.seal, {"name": name, "key": key.id, "sealed": sealed, "updated": now})

    def _reseal(self, tx: Tx, rings: list[KeyRing]) -> Sequence[int]:
        [ring] = rings
        rows = tx.query(SQL.others, {"key": ring.first.id, "count": CHUNK})
        for name, key, sealed in rows:
            self._put(tx, ring.first, name, _opened(ring, name, key, bytes(sealed)))
        return [len(rows)]

    def _others(self, ring: KeyRing) -> bool:
        """Whether another key than the first has sealed something."""
        engine = self._engine()
        return bool(engine.database.ask(SQL.other, {"key": ring.first.id}))

    def _ring(self) -> KeyRing:
        ring = key_ring(self._url, self._key)
        if ring is None:
            raise missing(self._url)
        return ring

    def _ring_to_seal(self, tx: Tx) -> KeyRing:
        """The keys; where there is no secret yet, and no file, one is made."""
        ring = key_ring(self._url, self._key)
        if ring is None and not tx.query(SQL.any, {}):
            make_file(self._url)
        return ring or self._ring()


def _seal(key: Key, name: str, value: str) -> bytes:
    nonce = os.urandom(NONCE)
    sealed: bytes = _cipher(key).encrypt(nonce, value.encode(), _bound(key.id, name))
    return nonce + sealed


def _opened(ring: KeyRing, name: str, key: str, sealed: bytes) -> str:
    with extra("app.secrets"):
        from cryptography.exceptions import InvalidTag
    found = ring.find(key)
    try:
        opened: bytes = _cipher(found).decrypt(sealed[:NONCE], sealed[NONCE:], _bound(key, name))
        return opened.decode()
    except (InvalidTag, ValueError):
        raise SecretsError(
            f"the secret {name!r} does not open: its row was changed, or belongs to another name;"
            " seal it again"
        ) from None


def _cipher(key: Key) -> Any:
    with extra("app.secrets"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    return AESGCM(key.raw)


def _bound(key: str, name: str) -> bytes:
    """What a value is sealed together with: it opens under this name and no other."""
    return f"duework_secret|1|{key}|{name}".encode()


def _check_value(name: str, value: str) -> None:
    if not isinstance(value, str) or not value:
        raise UsageError(f"the secret {name!r} is a text, and not an empty one")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UsageError(f"the secret {name!r} is not a text that can be stored") from None
    if size > VALUE_LIMIT:
        raise UsageError(f"the secret {name!r} is over {VALUE_LIMIT} bytes")


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LIMIT or not name.isprintable():
        raise UsageError(f"a secret's name is a text of 1 to {NAME_LIMIT} characters: {name!r:.80}")
