"""Whether anything of a send may have left this process.

The start of a send is committed before it, so that a send whose worker dies is known as unsure. A death in
between, before anything has left, need not be: `Leaving` says so where a survivor can read it, as late
as the sender lets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The signs of the number of a job that sends.
STAYS, LEAVES = -1, 1

_current: ContextVar[Leaving | None] = ContextVar("leaving", default=None)


class Leaving:
    """One send of a channel or an outbox."""

    def __init__(self, mark: Callable[[int], None]) -> None:
        # Notes outside this process that nothing has left yet, as STAYS, or may have.
        self._mark = mark
        self._left = True
        self._gone = False
        # Raised while nothing had left.
        self._harmless: BaseException | None = None

    def stays(self) -> None:
        """Nothing has left yet."""
        if not self._gone:
            self._left = False
            self._mark(STAYS)

    def goes(self) -> None:
        """From now on it may have left; only an answer tells what became of it."""
        if not self._left:
            self._left = True
            self._mark(LEAVES)

    def harmless(self, error: BaseException) -> bool:
        """Whether it ended the send before anything had left."""
        return error is self._harmless

    @contextmanager
    def sending(self) -> Iterator[None]:
        """The sender's own code runs: what it does not say stays unsure."""
        self.goes()
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    def leaves(self) -> None:
        """Something goes out now: what comes after it prepares nothing."""
        self._gone = True
        self.goes()

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Nothing leaves in here."""
        self.stays()
        try:
            yield
        except BaseException as error:
            if not self._left:
                self._harmless = error
            raise
        finally:
            # The sender may catch it, and go on.
            self.goes()


def leaves() -> None:
    """A request is about to go out; for clients that know when."""
    if (send := _current.get()) is not None:
        send.leaves()


@contextmanager
def preparing() -> Iterator[None]:
    """Inside a send: nothing of it has left before this block, nor in it.

        with preparing():
            reader, writer = await asyncio.open_connection(host, port)
        writer.write(...)

    A worker that dies, or a connection that is lost, in the block has sent nothing, and it is sent again.
    A request of an `http.Client` in the block ends it by itself when its first byte goes out.
    """
    send = _current.get()
    if send is None:
        yield
        return
    with send.preparing():
        yield
