"""Budgets as users hold them: reserve before, settle after; look at them, and raise them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from duework.averbs import Verbs, averb
from duework.durations import Duration, milliseconds
from duework.errors import NotFound, UsageError
from duework.kernel.error_text import storable
from duework.kernel.outcomes import BudgetSpent
from duework.kernel.tasks import check_name
from duework.shapes.budgets import SHAPE, verbs
from duework.shapes.budgets.periods import MILLION, PERIODS, Amount, millionths, period, shown, zone
from duework.shapes.budgets.verbs import BUDGETS, BudgetTerms, NewSpend, SpendEnd
from duework.shapes.shape import Hooks, Shape, in_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from duework.db.database import Tx
    from duework.part import Part
    from duework.wiring import Wiring

LONGEST_UNIT = 20


@dataclass(frozen=True, slots=True)
class SpendEntry:
    """A row of the ledger; times in milliseconds since 1970."""

    id: int
    budget: str
    amount: Decimal
    # reserved, settled, released, or assumed: nobody has settled it, so all of it counts.
    state: str
    note: str
    at: int
    ended: int | None


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget as it was when it was looked at."""

    name: str
    limit: Decimal
    per: str
    tz: str
    spent: Decimal
    reserved: Decimal
    # When the present period ends, in milliseconds since 1970.
    turns_at: int
    # The limit that the code says.
    declared: Decimal
    _budgets: Any = field(default=None, repr=False, compare=False)

    @property
    def left(self) -> Decimal:
        """What can still be reserved in this period."""
        return max(self.limit - self.spent - self.reserved, Decimal(0))

    def raise_to(self, limit: Amount) -> None:
        """Change the limit, and let the jobs go on that wait for that."""
        self._budgets.raise_to(self.name, limit)

    def ledger(self, *, before: int = 2**62, limit: int = 50) -> list[SpendEntry]:
        """What was spent, newest first."""
        found: list[SpendEntry] = self._budgets.ledger(self.name, before=before, limit=limit)
        return found

    araise_to = averb(raise_to)
    aledger = averb(ledger)


class Spend:
    """One reservation: `with budget.reserve(0.02) as spend:`, or `async with`."""

    def __init__(self, budget: Budget, new: NewSpend) -> None:
        self._budget = budget
        self._new = new
        self._end = SpendEnd(0)

    def settle(self, amount: Amount) -> None:
        """Say what it has cost; said again, the last one counts. Written at the end of the block."""
        self._end = SpendEnd(self._end.id, millionths(amount))

    def release(self) -> None:
        """Say that nothing was spent: all of it is given back."""
        self._end = SpendEnd(self._end.id, 0, "released")

    def __enter__(self) -> Self:
        self._end = SpendEnd(self._budget.take(self._new))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Of a block that raised it is not known what it spent: what was reserved counts.
        self._budget.end(self._end)

    async def __aenter__(self) -> Self:
        entering = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            # The thread goes on, and takes it all the same.
            entering.add_done_callback(self._give_back)
            raise

    def _give_back(self, entering: asyncio.Future[Self]) -> None:
        """Nobody is left to spend it."""
        if not entering.cancelled() and entering.exception() is None:
            self.release()
            entering.get_loop().run_in_executor(None, self._budget.end, self._end)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Also of a task that is being cancelled: what it has spent is known.
        await asyncio.shield(asyncio.to_thread(self._budget.end, self._end))


class Budget(Hooks):
    """What may be spent in a period: `llm = app.budget("llm", limit=5.00, per="day")`."""

    shape: ClassVar[Shape] = SHAPE

    def __init__(self, terms: BudgetTerms, unit: str = "") -> None:
        self.terms = terms
        # What its amounts are of, for whoever reads them: "$", "tokens".
        self.unit = unit
        self._wiring: Wiring | None = None

    def bind(self, wiring: Wiring) -> None:
        """It belongs to this App from now on."""
        for other in wiring.shapes:
            if isinstance(other, Budget) and other.name == self.name and other.terms != self.terms:
                raise UsageError(f"there are two budgets {self.name!r} that differ")
        self._wiring = wiring

    def arm(self) -> None:
        """If the code has other terms by now, those who wait look whether they may go on."""
        with self.wiring.engine.database.reading() as tx:
            known = tx.query(BUDGETS.terms, {"name": self.name})
        if known and tuple(known[0]) != (self.terms.limit, self.terms.per, self.terms.tz):
            self.status()

    @property
    def name(self) -> str:
        """As it was declared."""
        return self.terms.name

    @property
    def wiring(self) -> Wiring:
        """What is behind its App."""
        if self._wiring is None:
            raise UsageError(f"budget {self.name} belongs to no App yet: app.include(part)")
        return self._wiring

    def reserve(self, amount: Amount, *, note: str = "", hold: Duration = "1h") -> Spend:
        """Take an amount before it is spent; `BudgetSpent` if that is not left in this period.

        A reservation that nobody has ended after `hold`, since its process died, is settled as it is.
        """
        return Spend(
            self, NewSpend(self.terms, millionths(amount), storable(note)[:200], milliseconds(hold))
        )

    def status(self) -> BudgetStatus:
        """How it is now."""
        return self.wiring.find(Budgets).of(self.terms)

    def raise_to(self, limit: Amount) -> None:
        """Change the limit, until the code says another one; jobs that wait for that go on."""
        self.status()
        self.wiring.find(Budgets).raise_to(self.name, limit)

    astatus = averb(status)
    araise_to = averb(raise_to)

    def take(self, new: NewSpend) -> int:
        """The number of the ledger row."""
        [got] = self.wiring.engine.writer.call(self._reserve, [new])
        if got.id:
            return got.id
        now = self.wiring.now()
        why = (
            f"budget {self.name} has {shown(got.left)} left this {self.terms.per}, and"
            f" {shown(new.amount)} is wanted: wait for its turn, or raise it"
        )
        waits = partial(verbs.wait, terms=self.terms, amount=new.amount, now=now)
        raise BudgetSpent(why, max(got.turn - now, 0), waits)

    def end(self, end: SpendEnd) -> None:
        """Write how a reservation ended."""
        self.wiring.engine.writer.call(self._settle, [end])

    def prune(self) -> None:
        """Settle what was left open; forget what is too old."""
        in_chunks(self.wiring.engine, self._prune)

    def _reserve(self, tx: Tx, new: list[NewSpend]) -> Sequence[verbs.Reserved]:
        return verbs.reserve(tx, new, self.wiring.engine)

    def _settle(self, tx: Tx, ends: list[SpendEnd]) -> Sequence[None]:
        return verbs.settle(tx, ends, self.wiring.engine)

    def _prune(self, tx: Tx, items: list[None]) -> Sequence[int]:
        return [verbs.prune(tx, self.wiring.engine) for _ in items]


def declare_budget(
    part: Part, name: str, *, limit: Amount, per: str = "day", tz: str = "UTC", unit: str = ""
) -> Budget:
    """Declare a budget: `llm = app.budget("llm", limit=5.00, per="day", unit="$")`."""
    check_name("budget", name)
    if per not in PERIODS:
        raise UsageError(f"per= is one of {', '.join(PERIODS)}: not {per!r}")
    zone(tz)
    if len(unit) > LONGEST_UNIT:
        raise UsageError(
            f"unit= is a word of at most {LONGEST_UNIT} characters, as in '$', 'tokens'"
        )
    return part.contents.adopt(Budget(BudgetTerms(name, millionths(limit), per, tz), unit))


class Budgets(Verbs):
    """What an App knows of all budgets, also of those that this process does not declare."""

    def search(self, prefix: str = "", *, after: str = "", limit: int = 100) -> list[BudgetStatus]:
        """Every budget of which something was reserved, by name; go on with `after=` the last one."""
        values = {"prefix": prefix, "after": after, "wanted": limit}
        with self.engine.database.reading() as tx:
            return [self._status(row) for row in tx.query(BUDGETS.listed, values)]

    def get(self, name: str) -> BudgetStatus:
        """One of them; `NotFound` if there is none of that name."""
        for each in self.search(name, limit=1):
            if each.name == name:
                return each
        raise NotFound(f"there is no budget {name}, or nothing was ever reserved of it")

    def of(self, terms: BudgetTerms) -> BudgetStatus:
        """A declared one; its row is made, and its period turned."""
        self.engine.writer.call(self._bring_up, [terms])
        return self.get(terms.name)

    def raise_to(self, name: str, limit: Amount) -> None:
        """Change the limit of a budget, and let the jobs go on that wait for that."""
        self.engine.writer.call(self._raise_to, [(name, millionths(limit))])

    def ledger(self, name: str, *, before: int = 2**62, limit: int = 50) -> list[SpendEntry]:
        """What was spent of a budget, newest first."""
        values = {"name": name, "before": before, "wanted": limit}
        with self.engine.database.reading() as tx:
            rows = tx.query(BUDGETS.ledger, values)
        return [
            SpendEntry(number, budget, _decimal(amount), state, note, at, ended)
            for number, budget, _, amount, state, note, at, ended in rows
        ]

    def _bring_up(self, tx: Tx, wanted: list[BudgetTerms]) -> Sequence[None]:
        for each in sorted(wanted, key=lambda one: one.name):
            verbs.bring_up(tx, each, self.engine)
        return [None for _ in wanted]

    def _raise_to(self, tx: Tx, wanted: list[tuple[str, int]]) -> Sequence[None]:
        return verbs.raise_to(tx, wanted, self.engine)

    def _status(self, row: tuple[Any, ...]) -> BudgetStatus:
        name, declared, most, per, tz, _, turn, spent, reserved = row
        now = self.now()
        if turn <= now:
            # Nobody has reserved anything since it turned.
            (_, turn), spent, reserved = period(now, per, tz), 0, 0
        amounts = _decimal(spent), _decimal(reserved)
        return BudgetStatus(name, _decimal(most), per, tz, *amounts, turn, _decimal(declared), self)


def _decimal(amount: int) -> Decimal:
    return Decimal(amount) / MILLION
