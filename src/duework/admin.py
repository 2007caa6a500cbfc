"""What operators do with a database: look at it, migrate it, verify it, copy it, move many jobs.

Nothing here creates a database or changes its schema unless asked to: every verb first makes sure that
the database is there and fits this code. Verbs on many jobs work in chunks, each a transaction of its
own, and yield as they go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from duework.averbs import Verbs
from duework.clock import SystemClock
from duework.db import migrate
from duework.db.urls import missing, open_database, redacted
from duework.errors import Conflict, NotFound, SchemaMismatch, UsageError
from duework.health.activity import RANGES, Activity, Range, TaskTotals, activity, totals
from duework.health.checkup import Check, checkup
from duework.health.doctor import doctor, note_backup
from duework.health.needs import Need, needs
from duework.health.status import Status, status
from duework.health.verify import Finding, verify
from duework.health.why import Why
from duework.kernel.checks import KERNEL_CHECKS, Invariant
from duework.kernel.engine import OWN_TASKS
from duework.kernel.lanes import JOBS
from duework.shapes import SHAPES
from duework.shapes.graph import Node, graph
from duework.shapes.objects.handle import Objects

if TYPE_CHECKING:
    from duework.verbs import JobVerbs

# Jobs per transaction of a verb on many of them.
CHUNK = 500


class Admin(Verbs):
    """An App's database, seen by an operator."""

    def graph(self) -> list[Node]:
        """All that is declared, and what leads to what; needs no database."""
        wiring = self.wiring
        more = [Node("object", kind.name) for kind in wiring.find(Objects).kinds()]
        for part in wiring.parts:
            contents = part.contents
            more += [Node("command", f"{part.name} {name}") for name in contents.commands]
            more += [Node("route", each.endpoint.path) for each in contents.face.routes]
        return graph(wiring.registry, wiring.shapes, more)

    @property
    def _url(self) -> str:
        return self.wiring.bound.url

    @property
    def _durability(self) -> str:
        return self.wiring.bound.durability

    @property
    def _jobs(self) -> JobVerbs:
        return self.wiring.jobs

    # --- the database itself

    def pending(self) -> list[str]:
        """Migrations that are still to be applied; `NotFound` if there is no database."""
        self._must_exist()
        database = open_database(self._url, self._durability)
        try:
            todo = migrate.pending(database, self.wiring.schema_steps(database.kind))
        finally:
            database.close()
        return [f"{part} {step.number:04} {step.name}" for part, step in todo]

    def require(self) -> None:
        """An error unless the database is there and its schema is the one this code works on."""
        todo = self.pending()
        if any(name.startswith("duework 0001") for name in todo):
            raise NotFound(
                f"{redacted(self._url)} has no Duework tables: run `duework db migrate` on it first"
            )
        if todo:
            raise SchemaMismatch(
                f"the database lacks {', '.join(todo)}: run `duework db migrate` first"
            )

    def migrate(self, *, create: bool = False) -> list[str]:
        """Apply what is pending, and name it; with `create`, also to a file that is not there yet."""
        if not create:
            self._must_exist()
        database = open_database(self._url, self._durability)
        try:
            return migrate.migrate(database, self.wiring.schema_steps(database.kind))
        finally:
            database.close()

    def check(self) -> list[Check]:
        """Whether the database is fit for work; changes nothing, migrates nothing."""
        self._must_exist()
        database = open_database(self._url, self._durability)
        try:
            # What this host's own clock shows, whatever time rules here.
            now = SystemClock().now()
            return checkup(database, self.wiring.schema_steps(database.kind), now)
        finally:
            database.close()

    def doctor(self) -> list[Check]:
        """Whether the database and what is declared on it can be left alone; changes nothing."""
        database, here = self.engine.database, SystemClock().now()
        steps = self.wiring.schema_steps(database.kind)
        return doctor(database, steps, self.registry, now=self.now(), here=here)

    def backup(self, target: str) -> Iterator[tuple[int, int]]:
        """Copy the database while it is in use; yields (done, total) pages. Never overwrites."""
        self._must_exist()
        database = open_database(self._url, self._durability)
        try:
            yield from database.backup(target)
            if not migrate.pending(database, self.wiring.schema_steps(database.kind)):
                note_backup(database, SystemClock().now())
        finally:
            database.close()

    def _must_exist(self) -> None:
        if (file := missing(self._url)) is not None:
            raise NotFound(
                f"there is no database {file}: name another with --url or $DUEWORK_URL,"
                " or make one with `duework run` or `duework db migrate --create`"
            )

    # --- looking

    def about(self) -> dict[str, str]:
        """Which database it is: kind, url without its password, version, schema, durability."""
        database = self.engine.database
        steps = self.wiring.schema_steps(database.kind)
        # Of the shapes that every App has there is nothing to tell but in `pending`.
        ours = {f"shape:{each.name}" for each in SHAPES}
        newest = [f"{each.part} {len(each.migrations)}" for each in steps if each.part not in ours]
        return {
            "kind": database.kind,
            "url": redacted(self._url),
            "version": database.settings()["server_version"],
            "schema": ", ".join(newest),
            "durability": self._durability,
        }

    def status(self, *, own: bool = False) -> Status:
        """One look at everything; counts stop at a bound. With `own`, also the engine's own tasks."""
        theirs = [name for name in self.registry.names() if not name.startswith(OWN_TASKS)]
        known = self.registry.get if theirs else None
        with self.engine.database.reading() as tx:
            return status(
                tx,
                now=self.now(),
                near=self.engine.near,
                known=None if known is None else lambda task: known(task) is not None,
                own=own,
                late_ms=self.wiring.late_ms,
            )

    def why(self, identifier: int) -> Why:
        """Why a job waits, runs or has ended, from the rows; `NotFound` if there is none."""
        return self._jobs.why(identifier)

    def needs(self) -> list[Need]:
        """What needs somebody, the most urgent first."""
        around = self.wiring.around()
        with self.engine.database.reading() as tx:
            return needs(tx, around)

    def activity(self, over: Range = "1h") -> Activity:
        """What workers did in the last hour, 6h, 24h or 7d, and what falls due next; from counters."""
        if over not in RANGES:
            raise UsageError(f"a range is one of {', '.join(RANGES)}: not {over!r:.50}")
        now = self.now()
        with self.engine.database.reading() as tx:
            return activity(tx, now=now, over=over)

    def totals(self) -> list[TaskTotals]:
        """What workers did with each task since the database was made; from counters."""
        with self.engine.database.reading() as tx:
            return totals(tx)

    def verify(
        self, *, full: bool = False, tell: Callable[[str], None] = lambda _: None
    ) -> list[Finding]:
        """Check the invariants in one consistent view, read-only."""
        with self.engine.database.reading() as tx:
            return verify(tx, self._checks(), full=full, tell=tell)

    def _checks(self) -> list[Invariant]:
        """The invariants of the kernel, and of every shape that the App knows."""
        shapes = self.registry.shapes.values()
        return [*KERNEL_CHECKS, *(check for shape in shapes for check in shape.checks())]

    def queues(self) -> list[str]:
        """Every queue that has, or had, jobs, or that this App declares."""
        registry = self.registry
        with self.engine.database.reading() as tx:
            found = {row[0] for row in tx.query(JOBS.queues, {})}
        found.update(each for each in self.wiring.jobs.paused() if each != "*")
        declared = {known.policy.queue for known in map(registry.find, registry.names())}
        return sorted(found | declared | registry.queue_limits.keys() | registry.queue_paces.keys())

    # --- many jobs

    def redrive(self, *, task: str = "", queue: str = "") -> Iterator[list[tuple[int, str]]]:
        """Open every failed job again; yields (id, outcome) in chunks.

        A job whose key is held by another stays failed; its outcome says so.
        """
        for chunk in self._failed(task, queue):
            yield self._revive(chunk)

    def purge_failed(self, *, task: str = "", queue: str = "") -> Iterator[int]:
        """Delete every failed job for good; yields how many, in chunks."""
        for chunk in self._failed(task, queue):
            yield self._jobs.purge(chunk)

    def purge_queue(self, queue: str) -> Iterator[int]:
        """Cancel every job of a queue that does not run; yields how many, in chunks."""
        engine = self.engine
        while count := engine.writer.call(engine.purge_queue, [queue])[0]:
            yield count

    def _failed(self, task: str, queue: str) -> Iterator[list[int]]:
        before = 2**62
        while found := self._jobs.search(
            phase="failed", task=task, queue=queue, before=before, limit=CHUNK
        ):
            before = found[-1].id
            yield [job.id for job in found]

    def _revive(self, chunk: Sequence[int]) -> list[tuple[int, str]]:
        engine = self.engine
        try:
            answers = engine.writer.call(engine.revive, list(chunk))
        except (Conflict, NotFound):
            # One of them cannot be revived, and a chunk is all or nothing: take them singly.
            return [(job, self._revive_one(job)) for job in chunk]
        return list(zip(chunk, answers, strict=True))

    def _revive_one(self, job: int) -> str:
        try:
            return self._jobs.revive(job)
        except (Conflict, NotFound) as error:
            return error.code
