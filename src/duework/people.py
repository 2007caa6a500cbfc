"""The people of a part: found by their address, signed in by a link that was mailed to it.

Whoever opens the link has shown that the mailbox is theirs; before that no person is made. Links and sessions
are rows by the hash of their secret, so that every web process knows them and they end at once.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from typing import Any

from duework.db.database import Tx
from duework.db.queries import load
from duework.errors import NotFound, UsageError
from duework.face import Person
from duework.kernel.engine import Engine
from duework.kernel.transaction import Transaction, inside

PEOPLE = load("duework", "people")
LINK_MS = 15 * 60_000
SESSION_MS = 14 * 86_400_000
# Links of one address that are good at a time: nobody fills somebody else's mailbox.
MOST_LINKS = 3
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f<>\"',;:\\()\[\]]{1,64}@[a-z0-9-]+(\.[a-z0-9-]+)+")
_LONGEST = 254


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def clean_email(text: str) -> str:
    """The address in small letters; `UsageError` if it is none."""
    email = text.strip().lower()
    if len(email) > _LONGEST or not _EMAIL.fullmatch(email):
        raise UsageError("that is no e-mail address: write one like ada@example.com")
    return email


class People:
    """`part.people`: those of one part, never those of another."""

    def __init__(self, part: str, engine: Callable[[], Engine]) -> None:
        self._part = part
        self._engine = engine

    # --- for the part

    def find(self, email: str) -> Person | None:
        """The person with this address, if there is one."""
        return self._one(PEOPLE.find, {"email": clean_email(email)})

    def get(self, identifier: int) -> Person:
        """The person with this id; `NotFound` if there is none."""
        found = self._one(PEOPLE.get, {"id": identifier})
        if found is None:
            raise NotFound(f"there is no person {identifier} of {self._part}")
        return found

    def add(self, email: str) -> Person:
        """The person with this address, made if need be."""
        added: Person = self._write(lambda tx: self._add(tx, clean_email(email)))
        return added

    def forget(self, identifier: int) -> None:
        """Delete a person and end every session and link; rows of the part's own are its own affair."""

        def forget(tx: Tx) -> bool:
            gone = tx.query(PEOPLE.forget, {"part": self._part, "id": identifier})
            for [email] in gone:
                tx.query(PEOPLE.forget_passes, {"part": self._part, "email": email})
            return bool(gone)

        if not self._write(forget):
            raise NotFound(f"there is no person {identifier} of {self._part}")

    def entry(self, email: str) -> str:
        """A code that opens one session for this address: for those who have shown who they are."""
        return self._write(lambda tx: self.write_link(tx, clean_email(email), most=None)) or ""

    # --- for the door

    def link(self, email: str) -> str | None:
        """The code of a link; None if enough of them are on their way."""
        made: str | None = self._write(lambda tx: self.write_link(tx, email))
        return made

    def write_link(self, tx: Tx, email: str, most: int | None = MOST_LINKS) -> str | None:
        """A code, in the caller's transaction; None if enough of them are on their way."""
        now, secret = self._engine().clock.now(), secrets.token_urlsafe(32)
        tx.query(PEOPLE.delete_expired, {"now": now})
        mine = {"part": self._part, "email": email, "now": now}
        if most is not None:
            [[count]] = tx.query(PEOPLE.open_links, {**mine, "most": most})
            if count >= most:
                return None
        row = {"hash": hashed(secret), "kind": "link", "expires": now + self._real(LINK_MS)}
        tx.query(PEOPLE.add_pass, {**mine, **row})
        return secret

    def _real(self, length: int) -> int:
        """People read their mail in real time, however fast the App's clock goes."""
        return int(length * self._engine().clock.speed)

    def link_within(self, tx: Transaction, email: str) -> str | None:
        """The same in a block of the user's."""
        return self.write_link(inside(tx), email)

    def enter(self, code: str) -> str | None:
        """A session for the code of a link, once; the person is made now, if need be."""
        now, session = self._engine().clock.now(), secrets.token_urlsafe(32)

        def enter(tx: Tx) -> bool:
            asked = {"hash": hashed(code), "part": self._part, "now": now}
            taken = tx.query(PEOPLE.take_link, asked)
            for [email] in taken:
                self._add(tx, email)
                row = {"kind": "session", "email": email, "expires": now + self._real(SESSION_MS)}
                tx.query(PEOPLE.add_pass, {**asked, **row, "hash": hashed(session)})
            return bool(taken)

        return session if self._write(enter) else None

    def who(self, session: str) -> Person | None:
        """Whose session it is; nobody's if it has ended or is of another part."""
        now = self._engine().clock.now()
        return self._one(PEOPLE.of_session, {"hash": hashed(session), "now": now})

    def leave(self, session: str) -> None:
        """End a session."""
        self._write(lambda tx: tx.query(PEOPLE.end_session, {"hash": hashed(session)}))

    # ---

    def _add(self, tx: Tx, email: str) -> Person:
        engine = self._engine()
        values = {"part": self._part, "email": email}
        found = tx.query(PEOPLE.find, values)
        if not found:
            new = {"id": engine.ids.draw(), "now": engine.clock.now()}
            tx.query(PEOPLE.add, {**values, **new})
            found = tx.query(PEOPLE.find, values)
        return Person(*found[0])

    def _one(self, statement: Any, values: dict[str, Any]) -> Person | None:
        with self._engine().database.reading() as tx:
            rows = tx.query(statement, {"part": self._part, **values})
        return Person(*rows[0]) if rows else None

    def _write(self, act: Callable[[Tx], Any]) -> Any:
        def write(tx: Tx, acts: list[Callable[[Tx], Any]]) -> list[Any]:
            return [each(tx) for each in acts]

        return self._engine().writer.call(write, [act])[0]
