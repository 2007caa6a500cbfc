"""Sends: one machine for what goes to a system of other people, which may be away, or lose its reply.

A send is begun by a job, under its fence: its start is committed before the other side is called, and its
outcome is written with the settle of that job. A start without an outcome (a lost reply, a kill inside the
send) is unsure: it is sent again only where the other side knows a key, and else left for an operator.

Channels of deliveries and messages of outboxes are two kinds of it. Each says what a start is in its own
rows, how the other side is called, and what its answers and errors mean.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from duework.errors import Conflict, LeaseLost
from duework.kernel.moves import still_held
from duework.kernel.run import leaving_of
from duework.kernel.surroundings.leaving import Leaving
from duework.shapes.shape import waited_for

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.kernel.engine import Engine
    from duework.kernel.run import Run

W = TypeVar("W")
G = TypeVar("G")

# Why a send may not begin: the job is no longer ours, there is nothing left to send, or nobody can tell what
# became of the one before, and it must not be repeated.
Refusal = Literal["lost", "settled", "unsure"]


@dataclass(frozen=True, slots=True)
class Wanted(Generic[W]):
    """A send that wants to begin, under the fence of its job."""

    what: W
    job: int
    fence: int
    # Where it says, for those who find its start, whether anything has left.
    leaving: Leaving


class Sends(Generic[W, G]):
    """The machine. `W` is what is sent, `G` what is known of it once its start is committed."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    # --- what a kind of send says

    def mark(self, tx: Tx, wanted: Wanted[W], now: int) -> G | Refusal:
        """Write the start, if its job may still send it; under that job's lock.

        If no send before it has an unknown outcome, nothing has left yet: `wanted.leaving.stays()`, before
        the commit, so that a process that finds this start can read it.
        """
        raise NotImplementedError

    def prepare(self, run: Run, what: W, go: G) -> Callable[[], Any]:
        """How the other side is called; nothing leaves yet. What the call gives may have to be awaited."""
        raise NotImplementedError

    def answered(self, run: Run, what: W, go: G, answer: Any) -> Any:
        """The other side has answered: what is to be written with the settle."""
        raise NotImplementedError

    def raised(self, run: Run, what: W, go: G, error: Exception, *, harmless: bool) -> Any:
        """It raised: it was not sent, it never will be, or nobody can tell, unless `harmless`.

        Then nothing had left, and nothing can be lost.
        """
        raise NotImplementedError

    def unsure(self, run: Run, what: W) -> None:
        """Nobody can tell what became of the send before, and there is no way to repeat it."""
        raise NotImplementedError

    # --- what they have in common

    def begin(self, tx: Tx, wanted: list[Wanted[W]]) -> Sequence[G | Refusal]:
        """Commit the start of each send that may begin."""
        fences = still_held(tx, [each.job for each in wanted])
        now, answers = self._engine().clock.now(), list[G | Refusal]()
        for each in wanted:
            ours = fences.get(each.job) == each.fence
            answers.append(self.mark(tx, each, now) if ours else "lost")
        return answers

    async def asend_now(self, run: Run, what: W) -> Any:
        """One send in the event loop; the timeout of its job cancels it."""
        wanted = Wanted(what, run.job.id, run.job.fence, leaving_of(run))
        [go] = await self._engine().writer.acall(self.begin, [wanted], patience=None)
        if isinstance(go, str):
            return self._refused(run, what, go)
        try:
            call = self.prepare(run, what, go)
            with wanted.leaving.sending():
                answer = call()
                if inspect.isawaitable(answer):
                    answer = await answer
        except Exception as error:  # noqa: BLE001 - whatever it raises is the outcome
            harmless = wanted.leaving.harmless(error)
            return self.raised(run, what, go, error, harmless=harmless)
        return self.answered(run, what, go, answer)

    def send_now(self, run: Run, what: W) -> Any:
        """The same in a thread."""
        wanted = Wanted(what, run.job.id, run.job.fence, leaving_of(run))
        [go] = self._engine().writer.call(self.begin, [wanted], patience=None)
        if isinstance(go, str):
            return self._refused(run, what, go)
        try:
            call = self.prepare(run, what, go)
            with wanted.leaving.sending():
                answer = waited_for(call())
        except Exception as error:  # noqa: BLE001 - whatever it raises is the outcome
            harmless = wanted.leaving.harmless(error)
            return self.raised(run, what, go, error, harmless=harmless)
        return self.answered(run, what, go, answer)

    def _refused(self, run: Run, what: W, why: str) -> None:
        """This attempt sends nothing."""
        if why == "lost":
            raise LeaseLost
        if why == "unsure":
            self.unsure(run, what)


def must_be_unsure(what: str, state: str) -> None:
    """An operator decides once; a second decision is refused, with what it is now."""
    if state != "unsure":
        raise Conflict(f"{what} is {state}: only what is unsure has to be decided")
