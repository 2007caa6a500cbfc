"""An object in memory: its private database, its instance, and what its calls ask for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from duework.db.sqlite.image import OVER, Image
from duework.db.sqlite.pages import PAGE, changed, packed, unpacked
from duework.db.writer.blocks import inside_transaction
from duework.db.writer.requests import Waiting
from duework.durations import Duration, Moment, planned
from duework.errors import UsageError
from duework.kernel.engine import Engine
from duework.kernel.job import NewJob, new_event
from duework.shapes.objects.kind import Kind
from duework.shapes.objects.store import SMALL, Alarm, Loaded, ObjectChange, ShapeWrite, Stored

# What an open SQLite connection takes beside its pages, about.
CONNECTION_BYTES = 150_000
# Of the cache, for objects that are not open; and what such a one takes beside its pages, about.
SHELF_SHARE = 4
SHELVED_BYTES = 1000


class PendingCall(Waiting, eq=False):
    """A call that waits for its answer."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    holder: int | None


class Cell:
    """An object in memory: its database, its instance, and what its calls ask for."""

    def __init__(
        self, kind: Kind, key: str, base: Loaded, engine: Engine, *, stays: bool = True
    ) -> None:
        self.kind = kind
        self.key = key
        self.base = base
        self._engine = engine
        # Its connection, while it is open; and whether it stays open after its calls.
        self.image: Image | None = None
        self.stays = stays
        self._instance: Any = None
        # Whether its pages may differ from the stored ones.
        self.wrote = False
        self.jobs: list[NewJob] = []
        self.writes: list[ShapeWrite] = []
        self.alarm: Alarm | None = None
        self.deleted = False
        self._after = b""
        self._after_stored: Sequence[bytes] = ()
        self._new: list[NewJob | Alarm | ShapeWrite] = []
        self._going = False

    @property
    def cost(self) -> int:
        """Bytes of memory, about: SQLite has one copy of the pages, we another, and one packed."""
        return 3 * len(self.base.pages) + CONNECTION_BYTES

    def call(self, pending: PendingCall) -> None:
        """Run one call as a transaction; a raise undoes all of it."""
        image = self.image
        assert image is not None, "it was opened for its calls"
        pending.value = pending.error = None
        self._new, self._going = [], False
        try:
            with inside_transaction():
                image.begin()
                if self._instance is None:
                    self._open()
                pending.value = pending.function(self._instance, *pending.args, **pending.kwargs)
                self.wrote |= image.commit()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            pending.error = error
            image.rollback()
            # What the call may have left in attributes goes with it.
            self._instance = None
            return
        for each in self._new:
            if isinstance(each, Alarm):
                self.alarm = each
            elif isinstance(each, ShapeWrite):
                self.writes.append(each)
            else:
                self.jobs.append(each)
        self.deleted = self._going

    def _open(self) -> None:
        """A new instance; its tables are made in the transaction of the first call."""
        instance = self.kind.make(self.key, self)
        instance.open()
        if self._new or self._going:
            raise UsageError("open() makes tables; jobs, alarms and delete are for methods")
        self._instance = instance

    def change(self, holder: int | None) -> ObjectChange | None:
        """What is to be committed, if anything."""
        base = self.base
        if self.deleted:
            return ObjectChange(
                self.kind.name,
                self.key,
                base,
                jobs=self.jobs,
                writes=self.writes,
                delete=True,
                holder=holder,
            )
        pages = None
        count = len(base.pages) // PAGE
        if self.wrote:
            assert self.image is not None, "it is open until it has said what changed"
            after = self.image.pages()
            pages = [(number, packed(page)) for number, page in changed(base.pages, after)]
            count = len(after) // PAGE
            self._after = after
            self._after_stored = _merged(base.stored, pages, count)
        if not (pages or self.jobs or self.writes) and self.alarm is None:
            self.wrote = False
            return None
        return ObjectChange(
            self.kind.name,
            self.key,
            base,
            count,
            pages,
            jobs=self.jobs,
            writes=self.writes,
            alarm=self.alarm,
            holder=holder,
        )

    def close(self) -> Image | None:
        """Give its connection away, for another object."""
        image, self.image, self._instance = self.image, None, None
        return image

    @property
    def small(self) -> bool:
        """Whether all that is to be known of it is known as packed pages."""
        return bool(self._after_stored if self.wrote else self.base.stored)

    def stored(self, answer: Stored) -> None:
        """The commit has happened: this is what is stored now."""
        pages, stored = self.base.pages, self.base.stored
        if self.wrote:
            pages, stored = self._after, self._after_stored
        self.base = Loaded(answer.id, answer.version, answer.alarm, pages, stored)
        self.wrote, self.jobs, self.writes, self.alarm = False, [], [], None
        self._after, self._after_stored = b"", ()

    # --- what an instance asks for

    def sql(self, text: str, values: dict[str, Any]) -> list[Any]:
        if self.image is None:
            raise UsageError(OVER)
        return self.image.sql(text, values)

    def set_alarm(self, after: Duration | None, at: Moment | None) -> None:
        if self.kind.alarm is None:
            raise UsageError(f"{self.kind.name} has no `async def alarm(self)` to be called")
        if (after is None) == (at is None):
            raise UsageError("set_alarm takes a delay, such as '10s', or at=")
        due = planned(self._engine.clock.now(), after, at)
        task = self.kind.alarm
        payload = task.arguments.encode((self.key,), {})
        self._new.append(Alarm(due, task.policy.queue, payload))

    def clear_alarm(self) -> None:
        self._new.append(Alarm(None))

    def enqueue(self, task: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        now = self._engine.clock.now()
        self._new.append(task.as_job(args, kwargs, now))

    def submit(self, outbox: Any, message: Any) -> None:
        now = self._engine.clock.now()
        self._new.append(ShapeWrite("message", outbox.as_message(message, now)))

    def start(self, chain: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        now = self._engine.clock.now()
        new = chain.as_chain(args, kwargs, now)
        self._new.append(ShapeWrite("chain", new))

    def schedule(self, task: Any, options: dict[str, Any]) -> None:
        new = task.as_schedule(options, self._engine.clock.now())
        self._new.append(ShapeWrite("schedule", new))

    def publish(self, event: str, payload: Any) -> None:
        self._new.append(ShapeWrite("event", new_event(event, payload)))

    def delete(self) -> None:
        self._going = True


def _merged(
    stored: Sequence[bytes], new: Sequence[tuple[int, bytes]], count: int
) -> Sequence[bytes]:
    """All packed pages, of an object that is small, or none."""
    if count > SMALL:
        return ()
    pages = list(stored[:count])
    for number, page in new:
        if number > len(pages):
            pages.append(page)
        else:
            pages[number - 1] = page
    # One that was larger before has no packed copy to begin with.
    return pages if len(pages) == count else ()


class Cache:
    """Objects in memory that nobody uses at the moment, as many bytes of them as allowed.

    Most of the bytes are for open ones. The others lie on a shelf as packed pages, which take a
    hundredth of that where they are small. An object stays open once it is used again so soon that it
    would still be open: a walk over more objects than fit here uses a few connections again and again,
    and closes none that is worth keeping.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit - limit // SHELF_SHARE
        self.bytes = 0
        self._cells: OrderedDict[tuple[str, str], Cell] = OrderedDict()
        # With the number of the put, and the bytes.
        self._shelf: OrderedDict[tuple[str, str], tuple[Loaded, int, int]] = OrderedDict()
        self._shelf_limit = limit // SHELF_SHARE
        self.shelf_bytes = 0
        self._puts = 0

    def take(self, kind: Kind, key: str, engine: Engine) -> Cell | None:
        """The object, open or not; its version may be an old one."""
        cell = self._cells.pop((kind.name, key), None)
        if cell is not None:
            self.bytes -= cell.cost
            return cell
        shelved = self._shelf.pop((kind.name, key), None)
        if shelved is None:
            return None
        known, put, size = shelved
        self.shelf_bytes -= size
        base = Loaded(known.id, known.version, known.alarm, unpacked(known.stored), known.stored)
        soon = (self._puts - put) * CONNECTION_BYTES < self.limit
        return Cell(kind, key, base, engine, stays=soon)

    def put(self, cell: Cell) -> list[Cell]:
        """Keep it; returns those that have to be closed for it."""
        self._puts += 1
        if cell.image is None:
            self._put_away(cell)
            return []
        self._cells[cell.kind.name, cell.key] = cell
        self.bytes += cell.cost
        gone = []
        while self.bytes > self.limit:
            _, oldest = self._cells.popitem(last=False)
            self.bytes -= oldest.cost
            gone.append(oldest)
            self._put_away(oldest)
        return gone

    def _put_away(self, cell: Cell) -> None:
        base = cell.base
        if not base.stored:
            return
        size = sum(map(len, base.stored)) + SHELVED_BYTES
        known = Loaded(base.id, base.version, base.alarm, stored=base.stored)
        self._shelf[cell.kind.name, cell.key] = (known, self._puts, size)
        self.shelf_bytes += size
        while self.shelf_bytes > self._shelf_limit:
            _, (_, _, size) = self._shelf.popitem(last=False)
            self.shelf_bytes -= size

    def __len__(self) -> int:
        return len(self._cells)
