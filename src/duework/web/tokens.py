"""Who may come in: tokens, login links and sessions, each a secret of which the database has the hash.

A secret has 256 random bits, so its plain SHA-256 can neither be turned round nor guessed, and finding
a row by the hash tells nobody anything by the time it takes. A session ends with the token that opened it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duework.db.database import Tx
from duework.db.queries import load
from duework.durations import Duration, milliseconds
from duework.errors import Conflict, NotFound, UsageError
from duework.kernel.tasks import check_name

if TYPE_CHECKING:
    from duework.app import App

WEB = load("duework.web", "web")

SCOPES = ("read", "operate", "admin")
SESSION_MS = 12 * 3_600_000
LINK_MS = 15 * 60_000
FIRST = "first"
_SECRET = re.compile(r"dw_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Who:
    """Somebody who came in, and what they may do."""

    name: str
    scope: str
    # The session's secret, to bind forms to it; empty for a token that a program sent.
    session: str = ""

    def may(self, scope: str) -> bool:
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    @property
    def form_key(self) -> str:
        """What a form of this session carries: nobody without the session can make it."""
        return hashed(f"form {self.session}")


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as people see it: without its secret."""

    name: str
    scope: str
    created: int
    expires: int | None
    revoked: int | None


def new_secret() -> str:
    return "dw_" + secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def same(one: str, other: str) -> bool:
    """Compared in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


class Tokens:
    """The tokens of an App's database."""

    def __init__(self, app: App) -> None:
        self._app = app

    # --- for operators

    def add(self, name: str, scope: str, expires: Duration | None = None) -> str:
        """Make a token and return its secret, which nobody can read again."""
        check_name("token", name)
        if scope not in SCOPES:
            raise UsageError(f"a scope is one of {', '.join(SCOPES)}, not {scope!r}")
        secret, now = new_secret(), self._app.now()
        until = None if expires is None else now + milliseconds(expires)
        if not self._write(WEB.add, _row(secret, "token", name, scope, now, until)):
            raise Conflict(f"there is a token {name!r}, or was one: choose another name")
        return secret

    def all(self) -> list[TokenRow]:
        return [TokenRow(*row) for row in self._read(WEB.tokens, {})]

    def revoke(self, name: str) -> None:
        """Refuse it from now on, and every session that was opened with it."""
        now = self._app.now()

        def revoke(tx: Tx, names: list[str]) -> list[int]:
            found = [tx.query(WEB.revoke, {"name": each, "now": now}) for each in names]
            for rows in found:
                for [owner] in rows:
                    tx.query(WEB.end_sessions_of, {"hash": owner})
            return [len(rows) for rows in found]

        if not self._app.wiring.engine.writer.call(revoke, [name])[0]:
            raise NotFound(f"there is no token {name!r} that could be revoked")

    def make_first(self, file: Path) -> bool:
        """The token of the first start, in a file for its owner alone; whether this call made it.

        The file comes first: whoever dies between the two finds it and goes on with the same secret.
        """
        if self._read(WEB.any_token, {}):
            return False
        values = {"hash": hashed(_kept_secret(file)), "name": FIRST, "created": self._app.now()}
        return bool(self._write(WEB.add_first, values))

    def link(self) -> str:
        """A code that opens one session of the scope admin, within minutes."""
        secret, now = new_secret(), self._app.now()
        self._write(
            WEB.add, _row(secret, "link", "login link", "admin", now, now + self._real(LINK_MS))
        )
        return secret

    # --- for the door

    def _real(self, length: int) -> int:
        """People read and type in real time, however fast the App's clock goes."""
        return int(length * self._app.wiring.engine.clock.speed)

    def who(self, secret: str, kind: str) -> Who | str:
        """Whose secret it is, or in a word why it opens nothing: unknown, expired or revoked."""
        rows = self._read(WEB.find, {"hash": hashed(secret)})
        if not rows or rows[0][0] != kind:
            return "unknown"
        _, name, scope, expires, revoked, parent, parent_expires, parent_revoked = rows[0]
        now = self._app.now()
        if revoked is not None or (parent is not None and parent_revoked is not None):
            return "revoked"
        ends = [each for each in (expires, parent_expires) if each is not None]
        if ends and min(ends) <= now:
            return "expired"
        return Who(name, scope, secret if kind == "session" else "")

    def open_session(self, secret: str) -> str:
        """A session for a token's secret or a link's; `NotFound` says in words why there is none."""
        now, session = self._app.now(), new_secret()
        found = self.who(secret, "token")

        def enter(tx: Tx, secrets_: list[str]) -> list[bool]:
            tx.query(WEB.delete_expired, {"now": now})
            return [self._enter(tx, each, session, found, now) for each in secrets_]

        if not self._app.wiring.engine.writer.call(enter, [secret])[0]:
            raise NotFound(_REFUSED[found if isinstance(found, str) else "unknown"])
        return session

    def _enter(self, tx: Tx, secret: str, session: str, found: Who | str, now: int) -> bool:
        parent: str | None = None
        if isinstance(found, Who):
            name, scope, parent = found.name, found.scope, hashed(secret)
        elif taken := tx.query(WEB.take_link, {"hash": hashed(secret), "now": now}):
            name, scope = taken[0]
        else:
            return False
        row = _row(session, "session", name, scope, now, now + self._real(SESSION_MS))
        tx.query(WEB.add, {**row, "parent": parent})
        return True

    def end_session(self, session: str) -> None:
        self._write(WEB.end_session, {"hash": hashed(session)})

    def _read(self, statement: Any, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self._app.wiring.engine.database.reading() as tx:
            return tx.query(statement, values)

    def _write(self, statement: Any, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        def write(tx: Tx, items: list[dict[str, Any]]) -> list[list[tuple[Any, ...]]]:
            return [tx.query(statement, each) for each in items]

        return self._app.wiring.engine.writer.call(write, [values])[0]


_REFUSED = {
    "unknown": "There is no such token, or the link was used already.",
    "expired": "That token has expired. Ask for a new one.",
    "revoked": "That token was revoked. Ask for a new one.",
}


def _row(
    secret: str, kind: str, name: str, scope: str, created: int, expires: int | None
) -> dict[str, Any]:
    return {
        "hash": hashed(secret),
        "kind": kind,
        "name": name,
        "scope": scope,
        "created": created,
        "expires": expires,
        "parent": None,
    }


def _kept_secret(file: Path) -> str:
    """The secret in a file that only its owner can read; made if it is not there, never through a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    secret = new_secret()
    try:
        descriptor = os.open(file, flags, 0o600)
    except FileExistsError:
        return _read_secret(file)
    except OSError as error:
        raise UsageError(f"cannot write the first token to {file}: {error.strerror}") from error
    with os.fdopen(descriptor, "w") as out:
        print(secret, file=out)
        out.flush()
        os.fsync(descriptor)
    return secret


def _read_secret(file: Path) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise UsageError(f"cannot read the first token in {file}: {error.strerror}") from error
    with os.fdopen(descriptor) as held:
        if os.fstat(descriptor).st_mode & 0o077:
            raise UsageError(
                f"others can read the token in {file}: delete the file and start again"
            )
        secret = held.read(100).strip()
    if not _SECRET.fullmatch(secret):
        raise UsageError(f"{file} holds no token: delete it and start again")
    return secret
