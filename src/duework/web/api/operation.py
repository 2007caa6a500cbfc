"""What an operation of the HTTP API is: an address, the scope it needs, and the types that go in and out."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from duework.db.database import Tx
from duework.errors import Conflict, DatabaseError, Error, NotFound, UsageError
from duework.kernel.error_text import redact
from duework.web.api.types import Listed
from duework.web.parts.bodies import BadRequest
from duework.web.tokens import WEB, Who

if TYPE_CHECKING:
    from duework.app import App

T = TypeVar("T")
S = TypeVar("S")

BASE = "/api/v1"
FIRST_ID = 2**62
LONGEST = 300


class BadCursor(UsageError):
    """A cursor is what `next` of the page before was, as it was given."""

    code = "bad_cursor"


class KeyReused(Conflict):
    """The Idempotency-Key was used for another body."""

    code = "idempotency_key_reused"


@dataclass(frozen=True)
class Ask:
    """One request, checked: who asks, and what for."""

    app: App
    who: Who
    path: dict[str, str] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    # What the header Idempotency-Key says, and a number made from the body.
    key: str | None = None
    digest: int = 0

    def id(self, name: str = "id") -> int:
        """A number of the path; what is none is not there."""
        return id_of(self.path[name])

    @property
    def payloads(self) -> bool:
        """Whether this one may see what jobs were given and gave back."""
        return self.who.may(getattr(self.app, "payloads", "read"))

    def refuse_without_payloads(self) -> None:
        """For what is nothing but a payload."""
        if not self.payloads:
            raise BadRequest(403, "This App shows contents to operators only.")


@dataclass(frozen=True)
class Answer:
    """An answer with a status of its own."""

    body: Any
    status: int = 200
    location: str | None = None


Handle = Callable[[Ask], Any]


@dataclass(frozen=True)
class Operation:
    """One line of the table."""

    method: str
    # Below `BASE`.
    path: str
    scope: str
    handle: Handle
    # What is answered.
    gives: Any
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    statuses: tuple[int, ...] = (200,)
    # Whether the header Idempotency-Key is read.
    keyed: bool = False

    @property
    def summary(self) -> str:
        return (self.handle.__doc__ or "").partition("\n")[0]


def reads(
    path: str, handle: Handle, gives: Any, query: type[msgspec.Struct] | None = None
) -> Operation:
    """A look, for whoever has a token."""
    return Operation("GET", path, "read", handle, gives, query)


def acts(path: str, handle: Handle, gives: Any, body: type[msgspec.Struct]) -> Operation:
    """An action of an operator's."""
    return Operation("POST", path, "operate", handle, gives, body=body)


# --- ids and cursors


def id_of(text: str) -> int:
    """An id; what cannot be one is not there."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < 2**63):  # noqa: PLR2004
        raise NotFound(f"there is nothing with the id {text!r:.50}")
    return int(text)


def text_of(identifier: int | None) -> str | None:
    return None if identifier is None else str(identifier)


def cursor_of(place: int | str | Sequence[str]) -> str:
    """A place in a list as a text that nobody has to understand."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_of(cursor: str, kind: type[T], first: T) -> T:
    """Where a list goes on; `first` without a cursor."""
    if not cursor:
        return first
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
        place = msgspec.json.decode(raw, type=kind)
    except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
        raise BadCursor from error
    if isinstance(place, int) and not 0 <= place <= FIRST_ID:
        raise BadCursor
    if isinstance(place, str) and "\0" in place:
        raise BadCursor
    return place


def page_of(
    found: Sequence[S],
    limit: int,
    line: Callable[[S], T],
    place: Callable[[S], int | str],
) -> Listed[T]:
    """A page of a list; where it is full, the next one goes on behind its last."""
    more = cursor_of(place(found[-1])) if len(found) == limit else None
    return Listed([line(each) for each in found], more)


def line_of(kind: type[T], seen: Any, **other: Any) -> T:
    """What is said of something: what it has under the names of the type's fields, but for `other`."""
    names: Sequence[str] = kind.__struct_fields__  # type: ignore[attr-defined]
    return kind(**{name: other[name] if name in other else getattr(seen, name) for name in names})


# --- actions


def audited(ask: Ask, what: str, target: str, act: Callable[[Tx], str]) -> str:
    """Act and write it down in one commit, or neither; returns what became of it."""
    engine = ask.app.wiring.engine

    def both(tx: Tx, acts: list[Callable[[Tx], str]]) -> list[str]:
        outcomes = [each(tx) for each in acts]
        for outcome in outcomes:
            tx.query(WEB.audit, {**_line(ask, what, target), "outcome": outcome})
        return outcomes

    return engine.writer.call(both, [act])[0]


def noted(ask: Ask, what: str, target: str, act: Callable[[], T]) -> T:
    """Write it down as begun, act in commits of its own, and write what became of it."""
    line = _line(ask, what, target)
    _write(ask.app, WEB.audit, {**line, "outcome": "begun"})
    try:
        answer = act()
    except Error as error:
        _outcome(ask.app, line["id"], error.code)
        raise
    _outcome(ask.app, line["id"], "done")
    return answer


def _line(ask: Ask, what: str, target: str) -> dict[str, Any]:
    engine = ask.app.wiring.engine
    why = getattr(ask.body, "why", "")
    return {
        "id": engine.ids.draw(),
        "at": engine.clock.now(),
        "who": ask.who.name,
        "what": what,
        "target": target[:LONGEST],
        "why": redact(why)[:1000] if isinstance(why, str) else "",
    }


def _outcome(app: App, identifier: int, outcome: str) -> None:
    """If it cannot be written the line says `begun`, which is true."""
    try:
        _write(app, WEB.audit_outcome, {"id": identifier, "outcome": outcome})
    except DatabaseError:
        return


def _write(app: App, statement: Any, values: dict[str, Any]) -> None:
    def write(tx: Tx, items: list[dict[str, Any]]) -> list[None]:
        for each in items:
            tx.query(statement, each)
        return [None] * len(items)

    app.wiring.engine.writer.call(write, [values])
