"""Where sync methods run: one line of calls per object, objects in memory, one commit for many calls.

A call is put into the line of its object. Whoever finds a line idle runs it: a caller of sync code
does so in its own thread, for callers of async code a few threads of ours do. All calls that wait in a
line run one after the other, each a transaction of the private database, and what they changed is
committed together; calls of other objects that ran meanwhile share that commit. Only then is anybody
answered. An object that was changed by somebody else has lost: its copy is dropped, loaded anew, and
the same calls run again. So what a call read, or raised, was true when it was answered.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from duework.clock import monotonic, pause
from duework.db.database import Tx
from duework.db.sqlite.image import Image
from duework.db.writer.blocks import inside
from duework.db.writer.requests import answer_all
from duework.errors import DatabaseError, LeaseLost, UsageError
from duework.kernel.engine import Engine
from duework.shapes.objects import store
from duework.shapes.objects.cell import Cache, Cell, PendingCall
from duework.shapes.objects.kind import Kind
from duework.shapes.objects.store import Loaded, ObjectChange, Stored

# Threads that may run the calls of async code; more than one only while that one is stuck so long.
DRIVERS = 8
STUCK_SECONDS = 0.02
IDLE_SECONDS = 5.0
# A driver commits after so many objects or so much time, whichever comes first.
BATCH = 64
# So many lines are taken at a time, and loaded in one transaction.
TOGETHER = 16
IMAGES = 64
BATCH_SECONDS = 0.01
LINE_CALLS = 200
# After so many lost races a call waits a little before the next.
PATIENT_TRIES = 3


class CallLine:
    """The calls of one object that wait in this process."""

    __slots__ = ("calls", "key", "kind", "tries")

    def __init__(self, kind: Kind, key: str) -> None:
        self.kind = kind
        self.key = key
        self.calls: deque[PendingCall] = deque()
        self.tries = 0


class Work:
    """Calls of one line that have run and are not answered yet."""

    __slots__ = ("calls", "cell", "change", "error", "line")

    def __init__(self, line: CallLine, calls: list[PendingCall]) -> None:
        self.line = line
        self.calls = calls
        self.cell: Cell | None = None
        self.change: ObjectChange | None = None
        self.error: BaseException | None = None


class ObjectHost:
    """Runs the sync methods of one process's objects on one database."""

    def __init__(self, engine: Engine, cache_bytes: int) -> None:
        self.engine = engine
        self.cache = Cache(cache_bytes)
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._lines: dict[tuple[str, str], CallLine] = {}
        self._ready: deque[CallLine] = deque()
        # Loaded, and to be run by the next driver that is free.
        self._loaded: deque[Work] = deque()
        # Connections that are open and of no object at the moment.
        self._images: list[Image] = []
        self._drivers = 0
        self._active = 0
        # When one of them last got on.
        self._moved = 0.0
        # One object, so that the writer can tell requests of the same verb.

    def commit(self, tx: Tx, changes: list[ObjectChange]) -> Sequence[Stored]:
        """Store what methods have changed; of each, whether that was possible."""
        return store.commit(tx, changes, self.engine)

    # --- calls

    def run(self, kind: Kind, key: str, pending: PendingCall) -> Any:
        """Run a call and wait for its answer, in this thread if nobody else is at the object."""
        self._check()
        pending.done = threading.Event()
        line = self._enter(kind, key, pending)
        if line is not None:
            self._drive([line], pending.done)
        pending.done.wait()
        return pending.answer()

    def start(self, kind: Kind, key: str, pending: PendingCall) -> asyncio.Future[Any]:
        """The same for async code: a future."""
        self._check()
        future = pending.in_loop()
        line = self._enter(kind, key, pending)
        if line is not None:
            self._hand_over([line])
        return future

    def _check(self) -> None:
        if not self.engine.writer.ours:
            raise UsageError("this App was opened before a fork; make a new App in the child")
        if inside():
            message = (
                "an object cannot be called inside a transaction or a sync method of an object:"
                " it would wait for itself. Enqueue a task, or call it from an async method"
            )
            raise UsageError(message)

    def _enter(self, kind: Kind, key: str, pending: PendingCall) -> CallLine | None:
        """Put a call into its line; the line, if nobody runs it yet."""
        name = (kind.name, key)
        with self._lock:
            line = self._lines.get(name)
            if line is not None:
                line.calls.append(pending)
                return None
            line = self._lines[name] = CallLine(kind, key)
            line.calls.append(pending)
            return line

    def _hand_over(self, lines: list[CallLine]) -> None:
        """Leave lines to our threads."""
        with self._lock:
            self._ready.extend(lines)
            self._stand_by()
            if not self._active:
                self._work.notify()

    def _stand_by(self) -> None:
        """See that a thread is there beside those that run calls; the caller has the lock."""
        if self._drivers <= self._active and self._drivers < DRIVERS:
            self._drivers += 1
            name = f"duework-objects-{self._drivers}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        """One of our threads. One runs calls, and another is ready to, should that one be stuck.

        Two that run at once would only wait for each other: Python runs one of them at a time.
        """
        while True:
            with self._lock:
                while not self._wanted():
                    busy = self._active > 0
                    woken = self._work.wait(STUCK_SECONDS if busy else IDLE_SECONDS)
                    if not woken and not busy and not self._wanted():
                        self._drivers -= 1
                        return
                self._active += 1
                self._moved = monotonic()
                self._stand_by()
            try:
                self._drive([])
            finally:
                with self._lock:
                    self._active -= 1

    def _wanted(self) -> bool:
        """Whether one more thread should run calls."""
        if not self._ready and not self._loaded:
            return False
        return not self._active or monotonic() - self._moved > STUCK_SECONDS

    def _drive(self, lines: list[CallLine], own: threading.Event | None = None) -> None:
        """Run lines, commit, answer, and again for those that lost, until none is left.

        A driver takes along what waits. A caller has its `own` call, and leaves the rest to drivers.
        """
        while True:
            works: list[Work] = []
            try:
                self._run(lines, works, others=own is None)
                again = self._finish(works)
            except BaseException as error:  # noqa: BLE001 - whoever waits must be told
                again = self._answer([(work, error) for work in works])
            if not again:
                return
            if own is not None and own.is_set():
                self._hand_over(again)
                return
            lines = again

    def _run(self, lines: list[CallLine], works: list[Work], *, others: bool) -> None:
        """Run the calls of these lines, and of others that wait, until it is time to commit."""
        if not others:
            works += self._begun(lines)
            self._load(works)
            for work in works:
                self._run_calls(work)
            return
        self._moved = monotonic()
        until = self._moved + BATCH_SECONDS
        while len(works) < BATCH and self._moved < until:
            # Loaded together, run one by one by whoever is free: a slow method holds up nobody else.
            lines = lines or ([] if self._loaded else self._more())
            if lines:
                begun, lines = self._begun(lines), []
                self._load(begun)
                self._loaded.extend(begun)
            try:
                work = self._loaded.popleft()
            except IndexError:
                return
            works.append(work)
            self._run_calls(work)
            self._moved = monotonic()

    def _more(self) -> list[CallLine]:
        """A few of the lines that wait."""
        with self._lock:
            return [self._ready.popleft() for _ in range(min(TOGETHER, len(self._ready)))]

    def _begun(self, lines: list[CallLine]) -> list[Work]:
        return [Work(line, self._taken(line)) for line in lines]

    def _load(self, works: list[Work]) -> None:
        """Have their objects in memory, or the error."""
        with self._lock:
            for work in works:
                work.cell = self.cache.take(work.line.kind, work.line.key, self.engine)
        if missing := [work for work in works if work.cell is None]:
            self._read(missing)

    def _read(self, works: list[Work]) -> None:
        try:
            with self.engine.database.reading() as tx:
                bases = [store.load(tx, w.line.kind.name, w.line.key) for w in works]
        except Exception as error:  # noqa: BLE001 - answered to those who called
            if len(works) == 1:
                works[0].error = error
                return
            # Perhaps of one of them only, which is damaged.
            for work in works:
                self._read([work])
            return
        for work, base in zip(works, bases, strict=True):
            line = work.line
            work.cell = Cell(line.kind, line.key, base, self.engine, stays=False)

    def _open(self, cell: Cell) -> None:
        """Give it a connection: of those that are free the one used last, which is the quickest."""
        try:
            image = self._images.pop()
        except IndexError:
            image = Image()
        image.load(cell.base.pages)
        cell.image = image

    def _close(self, cells: Sequence[Cell]) -> None:
        """Take their connections away; a few are kept to serve others."""
        for cell in cells:
            image = cell.close()
            if image is not None and len(self._images) < IMAGES:
                self._images.append(image)
            elif image is not None:
                image.close()

    def _run_calls(self, work: Work) -> None:
        line, cell = work.line, work.cell
        if cell is None:
            return
        if line.tries > PATIENT_TRIES:
            pause(random.random() * 0.001 * min(line.tries, 20))  # noqa: S311 - jitter
        try:
            if cell.image is None:
                self._open(cell)
            for place, pending in enumerate(work.calls):
                cell.call(pending)
                if cell.deleted:
                    # Those behind it find a new object.
                    self._put_back(line, work.calls[place + 1 :])
                    del work.calls[place + 1 :]
            if any(pending.error is None for pending in work.calls):
                work.change = cell.change(work.calls[0].holder)
            if cell.small and not cell.stays:
                self._close([cell])
        except Exception as error:  # noqa: BLE001 - answered to those who called
            work.error = error

    def _taken(self, line: CallLine) -> list[PendingCall]:
        """The calls that run together: those of different leases do not."""
        with self._lock:
            calls = [line.calls.popleft()]
            while (
                line.calls and len(calls) < LINE_CALLS and line.calls[0].holder == calls[0].holder
            ):
                calls.append(line.calls.popleft())
        return calls

    def _put_back(self, line: CallLine, calls: list[PendingCall]) -> None:
        with self._lock:
            line.calls.extendleft(reversed(calls))

    # --- after the calls

    def _finish(self, works: list[Work]) -> list[CallLine]:
        """Commit or compare versions, then answer; the lines that have to run again."""
        writes = [w for w in works if w.change is not None]
        reads = [w for w in works if w.change is None and w.error is None]
        ends: list[tuple[Work, Any]] = [(w, w.error) for w in works if w.error is not None]
        if writes:
            ends += zip(writes, self._stored(writes), strict=True)
        if reads:
            ends += zip(reads, self._compared(reads), strict=True)
        return self._answer(ends)

    def _stored(self, works: list[Work]) -> Sequence[Stored | BaseException]:
        changes = [work.change for work in works if work.change is not None]
        try:
            return self.engine.writer.call(self.commit, changes)
        except DatabaseError as error:
            return [error] * len(works)
        except Exception as error:  # noqa: BLE001 - what one of them enqueued is refused
            if len(works) == 1:
                return [error]
            return [self._stored([work])[0] for work in works]

    def _compared(self, works: list[Work]) -> Sequence[Stored | BaseException]:
        """Whether what was only read is still what is stored."""
        lost: list[bool] = []
        try:
            with self.engine.database.reading() as tx:
                known = [_base(work).id for work in works if _base(work).id]
                now = store.versions(tx, known) if known else {}
                for work in works:
                    base, line = _base(work), work.line
                    if base.id:
                        lost.append(now.get(base.id) != base.version)
                    else:
                        lost.append(bool(store.find(tx, line.kind.name, line.key).id))
        except DatabaseError as error:
            return [error] * len(works)
        return [store.LOST if each else Stored("stored") for each in lost]

    def _answer(self, ends: Sequence[tuple[Work, Stored | BaseException]]) -> list[CallLine]:
        """Tell the callers, keep or drop the copies, and say which lines have to run again."""
        answered: list[PendingCall] = []
        dropped: list[Cell] = []
        again: list[CallLine] = []
        for work, end in ends:
            kept = self._ended(work, end)
            answered += work.calls
            with self._lock:
                if work.cell is not None:
                    dropped += self.cache.put(work.cell) if kept else [work.cell]
                if work.line.calls:
                    again.append(work.line)
                else:
                    del self._lines[work.line.kind.name, work.line.key]
        self._close(dropped)
        answer_all(answered)
        return again

    def _ended(self, work: Work, end: Stored | BaseException) -> bool:
        """Note how it ended with its calls; whether the copy in memory is what is stored."""
        if not isinstance(end, BaseException) and end.outcome == "lost":
            work.line.tries += 1
            self._put_back(work.line, work.calls)
            work.calls = []
            return False
        error = end if isinstance(end, BaseException) else None
        if not isinstance(end, BaseException) and end.outcome == "lease lost":
            error = LeaseLost(_TAKEN)
        if error is not None:
            for pending in work.calls:
                pending.error = error
            return False
        if work.cell is None or work.cell.deleted:
            return False
        if work.change is not None and not isinstance(end, BaseException):
            work.cell.stored(end)
        return True


_TAKEN = (
    "the lease of this async method has ended, or its object was deleted, and another call may run;"
    " nothing was written"
)


def _base(work: Work) -> Loaded:
    assert work.cell is not None, "a work without an error has a cell"
    return work.cell.base


__all__ = ["Cell", "ObjectHost", "PendingCall"]
