"""Group commit: one transaction, one fsync, many callers.

A process has one writer. Callers hand it a verb and a list of items, `verb(tx, items)`, which
returns one result per item; all requests that are waiting run in one transaction, requests of the
same verb as one call, and each caller is answered after the commit. So an answer is durable and
the price of durability is shared.

Verbs must be repeatable: if one raises, the transaction is rolled back and every request runs
again in a savepoint of its own, so that it alone gets the error and the others commit. A caller
that finds the writer idle commits by itself, without a change of thread.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence

from duework.clock import monotonic, pause
from duework.db.database import Database, PutFailed, Retryable, Tx, current_pid
from duework.db.writer.attached import AttachedRequests
from duework.db.writer.blocks import BESIDE, Hold, beside, holding, inside
from duework.db.writer.requests import (
    AttachedRequest,
    Item,
    Request,
    Result,
    Verb,
    admitted,
    answer_all,
    requested,
    run_singly,
    run_together,
)
from duework.errors import DatabaseError, Error, Gone, SchemaMismatch, Unavailable, UsageError

logger = logging.getLogger("duework")
GROUP_ROWS = 1000
PATIENCE = 5.0
# Between two commits while other processes write too: else the lock is rarely free for them.
GAP = 0.001
CLOSED = "this App is closed"


class Writer:
    """Runs verbs in shared transactions on the one write connection of a process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._hold = Hold(database.url)
        # While a block is open, nothing else writes there.
        self._one_at_a_time = database.kind == "sqlite"
        self._busy = database.busy
        self._waiting: deque[Request] = deque()
        # Held while the writer's thread has nothing to do: a lock wakes a thread in half the time
        # of an event.
        self._asleep = threading.Lock()
        self._asleep.acquire()
        # What is to be done along with what others ask for.
        self.attached = AttachedRequests()
        self._stop = False
        self._fatal: Error | None = None
        self._thread: threading.Thread | None = None
        # Also guards `_stop`: what is handed in before that is set is still answered.
        self._submitting = threading.Lock()
        self._here = current_pid()
        self._pid = self._here[0]
        # Called when a group has failed and is about to run once more.
        self.before_second_run: Callable[[], None] = lambda: None
        # Called with each transaction before anything is written; None while there is no need.
        self.watch: Callable[[Tx], None] | None = None
        # Called when all requests of a group have run; if it fails, they do without.
        self.before_commit: Callable[[Tx], None] = lambda _: None
        # Why nothing can be written at the moment, and since when; None when all is well.
        self.parked: str | None = None
        self._parked_at = 0.0

    def call(
        self,
        verb: Verb[Item, Result],
        items: list[Item],
        *,
        patience: float | None = PATIENCE,
        first: bool = False,
    ) -> Sequence[Result]:
        """Run the verb and wait for its commit. `first` goes before everything that waits."""
        self._check()
        if self._one_at_a_time and beside(self._database.url):
            raise UsageError(BESIDE)
        request = requested(verb, items, patience, essential=first)
        others = self._waiting or self._busy.locked()
        if not (others or (self.attached.left and self.attached.beside([request]))):
            try:
                # `with`, since a signal's handler may raise between any other two steps.
                with self._busy:
                    # Again: it may have been closed since, and its connection with it.
                    if self._stop:
                        raise UsageError(CLOSED)
                    self._commit_alone(request)
            finally:
                if self._waiting:
                    self._wake()
        else:
            request.done = threading.Event()
            self._submit(request, first=first)
            request.done.wait()
        results: Sequence[Result] = request.answer()
        return results

    async def acall(
        self,
        verb: Verb[Item, Result],
        items: list[Item],
        *,
        patience: float | None = PATIENCE,
        first: bool = False,
        essential: bool = False,
    ) -> Sequence[Result]:
        """The same for async callers; the event loop goes on meanwhile.

        What is `first` is essential, too: it is about work that is there already, and done on a full disk.
        """
        self._check()
        request = requested(verb, items, patience, essential=essential or first)
        future = request.in_loop()
        self._submit(request, first=first)
        results: Sequence[Result] = await future
        return results

    def call_within(
        self, verb: Verb[Item, Result], items: list[Item], seconds: float
    ) -> Sequence[Result]:
        """Ahead of all that waits, and never longer than `seconds`, however the database hangs.

        `Unavailable` does not mean here that it will not happen, only that it is not waited for.
        """
        self._check()
        request = requested(verb, items, seconds, essential=True)
        request.done = threading.Event()
        self._submit(request, first=True)
        if not request.done.wait(seconds):
            raise Unavailable(_late(self.parked or "the database does not answer"))
        results: Sequence[Result] = request.answer()
        return results

    @property
    def ours(self) -> bool:
        """Whether this is the process that made it, not one that was forked from it."""
        return self._here[0] == self._pid

    def stuck(self, seconds: float) -> str | None:
        """Why nothing could be written for at least so long; None if all is well."""
        why = self.parked
        return why if why is not None and monotonic() - self._parked_at >= seconds else None

    def close(self) -> None:
        """Finish what waits, then stop; later calls are refused."""
        with self._submitting:
            self._stop = True
        self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=PATIENCE)
        # A caller may be the writer at the moment; a verb that closes would wait for itself.
        if self._busy.acquire(timeout=0 if inside() else PATIENCE):
            self._busy.release()
        left = self._take(rows=None)
        for request in left:
            request.error = UsageError(CLOSED)
        answer_all(left)

    def between_commits(self, look: Callable[[], bool], seconds: float) -> bool | None:
        """What `look` says while nothing is being written; None if that takes too long."""
        if not self._busy.acquire(timeout=seconds):
            return None
        try:
            return look()
        finally:
            self._busy.release()

    def _check(self) -> None:
        if inside() or self._stop or self._fatal is not None or self._here[0] != self._pid:
            self._refuse()

    def _refuse(self) -> None:
        """Say why nothing can be asked for."""
        if not self.ours:
            # The writer's thread and its locks are the parent's.
            message = "this App was opened before a fork; make a new App in the child process"
            raise UsageError(message)
        if inside():
            message = (
                "a write of its own inside a transaction (`with app.transaction()`, run.commit or"
                " @task.settled) would wait for itself; use tx.enqueue(task, …) instead"
            )
            raise UsageError(message)
        if self._fatal is not None:
            raise self._fatal
        raise UsageError(CLOSED)

    def _submit(self, request: Request, *, first: bool) -> None:
        with self._submitting:
            # Once it has stopped, nothing would answer.
            if self._stop:
                raise UsageError(CLOSED)
            if self._thread is None:
                self._start()
            if first:
                self._waiting.appendleft(request)
            else:
                self._waiting.append(request)
        self._wake()

    def _wake(self) -> None:
        # If it is not held, the writer has not looked yet, and will see all that waits.
        if self._asleep.locked():
            with contextlib.suppress(RuntimeError):
                self._asleep.release()

    def _start(self) -> None:
        thread = threading.Thread(target=self._serve, name="duework-writer", daemon=True)
        thread.start()
        self._thread = thread

    def _serve(self) -> None:
        """The writer's thread: take all that waits, commit it, answer."""
        ended = 0.0
        while not (self._stop and not self._waiting):
            self._asleep.acquire()
            while self._waiting:
                with self._busy:
                    # Not right after a commit: callers that were answered want the interpreter then.
                    if (left := ended + GAP - monotonic()) > 0 and self._database.crowded():
                        pause(left)
                    if group := self._take():
                        self._commit_group(group)
                ended = monotonic()

    def _take(self, rows: int | None = GROUP_ROWS) -> list[Request]:
        """Requests with about so many rows, or all; another thread may empty it meanwhile."""
        group: list[Request] = []
        count = 0
        while rows is None or count < rows:
            try:
                request = self._waiting.popleft()
            except IndexError:
                break
            count += len(request.items)
            group.append(request)
        return group

    def _commit_alone(self, request: Request) -> None:
        """The caller's own thread is the writer for a moment."""
        tries = 0
        while not self._attempt([request]):
            # Those that wait behind it have a patience of their own.
            answer_all(self._overdue())
            tries += 1
            pause(_backoff(tries))

    def _commit_group(self, group: list[Request]) -> None:
        tries = 0
        if self.attached.left and self._database.disk_full_reason() is None:
            self.attached.choose(group)
        while group:
            if self._attempt(group):
                self._answer(group)
                return
            # Some may have run out of patience: they are answered, the others try again.
            self._answer([request for request in group if request.error is not None])
            group = [request for request in group if request.error is None]
            answer_all(self._overdue())
            tries += 1
            pause(_backoff(tries))

    def _overdue(self) -> list[Request]:
        """Requests that gave up waiting behind a group that cannot be written."""
        now = monotonic()
        late: list[Request] = []
        # A copy: others go on asking meanwhile.
        for request in self._waiting.copy():
            if request.deadline is None or request.deadline > now:
                continue
            # One that was taken since is answered by its taker.
            with contextlib.suppress(ValueError):
                self._waiting.remove(request)
                request.error = Unavailable(_late(self.parked or "the writer is busy"))
                late.append(request)
        return late

    def _attempt(self, group: list[Request]) -> bool:
        """One transaction for the group; False if it should be tried again."""
        if (short := self._database.disk_full_reason()) is not None:
            group = admitted(group, short)
            if not group:
                return True
        try:
            tx = self._write(group)
        except Retryable as error:
            return self._put_off(group, error)
        except _CommitRefused as refused:
            # A deferred constraint: whose it is, only separate transactions show.
            if len(group) > 1:
                return self._attempt_each(group)
            group[0].error = refused.error
            return True
        except Exception as error:  # noqa: BLE001 - answered to its caller; the writer lives on
            if isinstance(error, (Gone, SchemaMismatch)):
                self._fatal = error
            for request in group:
                request.error = error
            return True
        self.parked = None
        run_after_commit(tx)
        return True

    def _write(self, group: list[Request]) -> Tx:
        """The group's statements and their commit, and what goes along with them."""
        along: list[AttachedRequest] = []
        happened = False
        try:
            tx = self._begin()
            # A verb, an effect or a reaction that writes past its transaction would wait for itself.
            holding.set(self._hold)
            try:
                run_together(tx, group)
                if self.attached.along:
                    along = self.attached.begin()
                    run_together(tx, along)
                self.before_commit(tx)
            except Retryable:
                raise
            except Exception:  # noqa: BLE001 - see `_write_singly`
                # Whose error it is, the second run shows.
                return self._write_singly(group)
            try:
                self._commit(tx)
            except PutFailed:
                return self._write_singly(group)
            happened = True
        except BaseException:
            # Also at Ctrl-C in the caller's thread: the next group must find it closed.
            self._database.rollback()
            raise
        finally:
            holding.set(None)
            if not happened:
                self.attached.undo(along)
        return tx

    def _begin(self) -> Tx:
        tx = self._database.begin()
        if self.watch is not None:
            self.watch(tx)
        return tx

    def _answer(self, answered: list[Request]) -> None:
        """Answer them, and what went along with them; each event loop is woken once."""
        answer_all([*answered, *self.attached.over()])

    def _write_singly(self, group: list[Request]) -> Tx:
        """The second run: each request in a savepoint of its own."""
        self._database.rollback()
        self.before_second_run()
        tx = self._begin()
        run_singly(tx, group)
        if any(request.error is None for request in group):
            self._commit(tx)
        else:
            self._database.rollback()
        return tx

    def _commit(self, tx: Tx) -> None:
        try:
            self._database.commit(tx)
        except (Unavailable, Gone, SchemaMismatch, PutFailed):
            raise
        except DatabaseError as error:
            raise _CommitRefused(error) from error

    def _attempt_each(self, group: list[Request]) -> bool:
        """Each request in a transaction of its own; False if some should be tried again."""
        for request in group:
            request.error = None
            tries = 0
            while not self._attempt([request]):
                tries += 1
                pause(_backoff(tries))
        return True

    def _put_off(self, group: list[Request], error: Retryable) -> bool:
        now = monotonic()
        if self.parked is None:
            self._parked_at = now
        self.parked = str(error)
        for request in group:
            request.error = None
            if self._stop or (request.deadline is not None and request.deadline <= now):
                request.error = Unavailable(_late(str(error)))
                request.error.__cause__ = error.__cause__
        return all(request.error is not None for request in group)


class _CommitRefused(Exception):
    """The database would not commit what the statements had done."""

    def __init__(self, error: DatabaseError) -> None:
        super().__init__(str(error))
        self.error = error


def run_after_commit(tx: Tx) -> None:
    """What was to follow the commit; it is durable already, so a failure here undoes nothing."""
    for after in tx.after_commit:
        try:
            after()
        except Exception:
            logger.exception("something that was to follow a commit failed")


def _backoff(tries: int) -> float:
    """Jittered, since SQLite's own busy handler lets one process starve the others."""
    return min(0.0002 * 1.5 ** min(tries, 25), 0.25) * (0.5 + random.random())  # noqa: S311 - not a secret


def _late(reason: str) -> str:
    text = f"the database could not be written in time: {reason}"
    if "lock" not in reason:
        return text
    return text + (
        ". If this thread has a transaction open on it, enqueue inside that:"
        " task.using(connection=…) or tx.enqueue(task, …)"
    )
