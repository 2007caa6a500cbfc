"""What has changed, in topics: noted while a transaction writes, told after its commit to those who listen.

A topic is a table's (`jobs`, or a shape's name) or one that `touch` has named. None stands for a commit
of which no more is known than that it happened. Without a listener, no transaction is looked at.

On PostgreSQL processes tell each other by words in the channel that also rings workers: one that listens
says so, and those that hear it let their commits name topics for a while, and ask now and then whether
there is still a listener.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import msgspec

from duework.clock import monotonic
from duework.db.database import Tx
from duework.db.queries import Statement
from duework.db.writer.writer import Writer
from duework.errors import UsageError

Topics = frozenset[str] | None
Listening = Callable[[Topics], None]

# What is written, and what it is called for those who look.
OF_TABLE = {
    "duework_job": "jobs",
    "duework_lane": "jobs",
    "duework_attempt": "jobs",
    "duework_pause": "jobs",
    "duework_worker": "jobs",
    "duework_batch": "batches",
    "duework_chain": "chains",
    "duework_page": "chains",
    "duework_schedule": "schedules",
    "duework_delivery": "deliveries",
    "duework_outbox": "outboxes",
    "duework_object": "objects",
    "duework_object_page": "objects",
    "duework_pace": "paces",
    "duework_audit": "audit",
    "duework_token": "tokens",
    "duework_pass": "tokens",
}
JOBS_TOPIC = frozenset({"jobs"})
# What every word between listeners begins with; all others ring workers.
WORD = "feed "
ASKS, HERE, CHANGED = f"{WORD}asks", f"{WORD}here", f"{WORD}changed"
# How often those that tell of changes ask for a listener, and how long they go on without an answer.
ASK_SECONDS, GIVE_UP_SECONDS = 60.0, 130.0
# A notification has room for 8,000 bytes.
WORD_BYTES = 7_000
_TOPIC = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")


class Touched(msgspec.Struct, frozen=True):
    """Topics that the user's code has named, to be told with the commit."""

    topics: tuple[str, ...]


class Closing(Protocol):
    def close(self) -> None: ...


def touched(topics: Iterable[str]) -> Touched:
    """Checked: a topic is a word."""
    found = tuple(topics)
    for topic in found:
        if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
            message = f"a topic is a word of at most 200 characters, as user:7: not {topic!r}"
            raise UsageError(message)
    return Touched(found)


class Feed:
    """The listeners of one process, and what its commits tell them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._topics = dict(OF_TABLE)
        self._process = f"{secrets.randbits(62):x}"
        # It may be taken again: a listener that is collected as garbage leaves wherever that happens.
        self._lock = threading.RLock()
        self._listeners: dict[int, Listening] = {}
        self._ends: dict[int, Callable[[], None]] = {}
        self._last = 0
        # Begins to watch what other processes commit, for the first listener.
        self.watch_others: Callable[[], Closing] | None = None
        self._watching: Closing | None = None
        # When another process said last that it listens, and when it was asked last.
        self._heard = self._asked = -GIVE_UP_SECONDS

    def name_tables(self, topic: str, tables: Iterable[str]) -> None:
        """What is written to these tables is told as this topic."""
        self._topics.update(dict.fromkeys(tables, topic))

    # --- listeners

    def listen(self, listener: Listening, ended: Callable[[], None]) -> int:
        """Call `listener`, from any thread, with what changes from now on; `ended` when this closes."""
        with self._lock:
            self._last += 1
            self._listeners[self._last] = listener
            self._ends[self._last] = ended
            self._writer.watch = self.note
            # Not before: the watch tells at once from when on it hears, and that is for this one, too.
            if self._watching is None and self.watch_others is not None:
                try:
                    self._watching = self.watch_others()
                finally:
                    if self._watching is None:
                        self.leave(self._last)
            return self._last

    def leave(self, number: int) -> None:
        """It listens no more; the last one ends the watch."""
        with self._lock:
            self._listeners.pop(number, None)
            self._ends.pop(number, None)
            if self._listeners:
                return
            watching, self._watching = self._watching, None
        if watching is not None:
            watching.close()

    def close(self) -> None:
        """Tell all that nothing more comes."""
        for number, ended in list(self._ends.items()):
            self.leave(number)
            ended()

    def publish(self, topics: Topics) -> None:
        for listener in list(self._listeners.values()):
            listener(topics)

    # --- what this process commits

    def note(self, tx: Tx) -> None:
        """Note what this transaction writes, and tell it after the commit."""
        elsewhere = self._listened_elsewhere(tx)
        if not elsewhere and not self._listeners:
            self._rest()
            return
        topics: set[str] = set()

        def note(statement: Statement) -> None:
            for table in statement.tables:
                topic = self._topics.get(table)
                if topic is not None and topic not in topics:
                    topics.add(topic)
                    if elsewhere:
                        self.tell_others(tx, [topic])

        def committed() -> None:
            if topics:
                self.publish(frozenset(topics))

        tx.note = note
        tx.after_commit.append(committed)

    def _rest(self) -> None:
        """Look at no more transactions, unless a listener has come meanwhile."""
        with self._lock:
            if not self._listeners and monotonic() - self._heard >= GIVE_UP_SECONDS:
                self._writer.watch = None

    def touch(self, tx: Tx, items: list[Touched]) -> list[None]:
        """Tell topics once this transaction has committed."""
        for item in items:
            tx.after_commit.append(partial(self.publish, frozenset(item.topics)))
            self.tell_others(tx, item.topics)
        return [None for _ in items]

    def tell_others(self, tx: Tx, topics: Iterable[str]) -> None:
        """With the commit, where commits can carry words."""
        word = " ".join([CHANGED, self._process, *topics])
        if len(word.encode()) > WORD_BYTES:
            word = f"{CHANGED} {self._process}"
        tx.hint(word)

    def _listened_elsewhere(self, tx: Tx) -> bool:
        now = monotonic()
        if now - self._heard >= GIVE_UP_SECONDS:
            return False
        if now - max(self._heard, self._asked) >= ASK_SECONDS:
            self._asked = now
            tx.hint(ASKS)
        return True

    # --- what other processes say

    @property
    def here(self) -> str:
        """The word of a process that listens."""
        return f"{HERE} {self._process}"

    def heard(self, word: str) -> bool:
        """A worker was notified; whether that is a reason for it to look."""
        if word.startswith(HERE) and word != self.here:
            with self._lock:
                self._heard = monotonic()
                self._writer.watch = self.note
        return not word.startswith(WORD)

    def told(self, word: str) -> str | None:
        """A listener was notified; what to answer."""
        if word == ASKS:
            return self.here
        if word.startswith(CHANGED):
            process, *topics = word.removeprefix(CHANGED).split()
            if process != self._process:
                self.publish(frozenset(topics) or None)
        elif not word.startswith(WORD):
            # The connection is new, or jobs are due, or are to be cancelled, wherever that was written.
            self.publish(None if word == "reconnected" else JOBS_TOPIC)
        return None
