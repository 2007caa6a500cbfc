"""A task as users see it: a function that can still be called, and enqueued.

Options of one call are given by `using`, which returns something that enqueues in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

from duework.clock import FOREVER
from duework.codec import check_template
from duework.durations import Duration, Moment, milliseconds, planned
from duework.errors import InvalidArguments, UsageError
from duework.handles import Job
from duework.kernel.batches.new import Follow, MemberTerms, NewBatch, NewMembers
from duework.kernel.job import KEEP, LaneName, NewJob
from duework.kernel.labels.given import given_tags, headers_text
from duework.kernel.surroundings.reactions import reaction as in_settle
from duework.kernel.tasks import KEPT_FOREVER, Definition, check_name, check_priority

if TYPE_CHECKING:
    from duework.part import Contents
    from duework.typed.calls import Takes0, Takes1, Takes2, Takes3, Takes4, Takes5
    from duework.typed.options import EnqueueOptions
    from duework.wiring import Wiring

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
A = TypeVar("A")
B = TypeVar("B")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
Q = TypeVar("Q")

_TEXT_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Options:
    """What `using(…)` takes."""

    delay: Duration | None = None
    at: Moment | None = None
    key: str | None = None
    once: Duration | Literal["forever"] | None = None
    priority: int | None = None
    queue: str | None = None
    expires: Duration | None = None
    serial: str | None = None
    after: Job[Any] | int | None = None
    replace: bool = False
    when_running: Literal["again"] | None = None
    # A bound for `replace`: however often it is replaced, it is due no later than this after the first.
    latest: Duration | None = None
    tags: Sequence[str] | None = None
    headers: Mapping[str, str] | None = None
    connection: Any = None

    def __post_init__(self) -> None:
        if self.delay is not None and self.at is not None:
            raise UsageError("give delay= or at=, not both")
        if (self.once or self.replace or self.when_running) and self.key is None:
            raise UsageError("once=, replace= and when_running= need a key=")
        if self.when_running not in (None, "again"):
            raise UsageError("when_running= is 'again' or left out")
        if isinstance(self.after, bool) or not isinstance(self.after, Job | int | None):
            raise UsageError(f"after= is a job or the id of one, not {self.after!r:.100}")
        if self.priority is not None:
            check_priority(self.priority)
        if self.queue is not None:
            check_name("queue", self.queue)
        self._check_carried()
        for what, text in (("key", self.key), ("serial", self.serial)):
            if text is not None:
                check_text(what, text)

    def _check_carried(self) -> None:
        if self.latest is not None and not self.replace:
            raise UsageError("latest= bounds how long replace=True may put a job off: give both")
        for tag in given_tags(self.tags):
            check_text("tag", tag)
        headers_text(self.headers)


def check_text(what: str, text: object) -> None:
    """A clear error for a key, a tag or another text that cannot be stored."""
    if not _storable(text):
        raise UsageError(f"a {what} is a text of 1 to {_TEXT_LIMIT} characters, not {text!r:.100}")


def _storable(text: object) -> bool:
    """Whether every database can store it: no null characters, no halves of surrogate pairs."""
    if not isinstance(text, str) or not 0 < len(text) <= _TEXT_LIMIT or "\0" in text:
        return False
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


class Using(Generic[P, R]):
    """A task with options for the next enqueue; with none of them, the task itself."""

    def __init__(self, task: Task[P, R, Any], options: Options) -> None:
        self._task = task
        self._options = options
        self._known_lane: LaneName | None = None

    @property
    def connection(self) -> Any:
        """The caller's own connection, if `using(connection=…)` has named one."""
        return self._options.connection

    def using(self, **options: Unpack[EnqueueOptions]) -> Using[P, R]:
        """Options for the next enqueue: delay, at, key, once, priority, queue, expires and so on."""
        return Using(self._task, _options(self._options, options))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Write the job; durable when this returns."""
        wiring = self._task.wiring
        job = self.as_job(args, kwargs, wiring.now())
        return wiring.jobs.enqueue([job], self._options.connection)[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """The same for async code."""
        wiring = self._task.wiring
        job = self.as_job(args, kwargs, wiring.now())
        return (await wiring.jobs.aenqueue([job], self._options.connection))[0]

    @overload
    def enqueue_many(self: Takes0[Q], calls: Iterable[tuple[()]]) -> list[Job[Q]]: ...

    @overload
    def enqueue_many(self: Takes1[A, Q], calls: Iterable[tuple[A]]) -> list[Job[Q]]: ...

    @overload
    def enqueue_many(self: Takes2[A, B, Q], calls: Iterable[tuple[A, B]]) -> list[Job[Q]]: ...

    @overload
    def enqueue_many(self: Takes3[A, B, D, Q], calls: Iterable[tuple[A, B, D]]) -> list[Job[Q]]: ...

    @overload
    def enqueue_many(
        self: Takes4[A, B, D, E, Q], calls: Iterable[tuple[A, B, D, E]]
    ) -> list[Job[Q]]: ...

    @overload
    def enqueue_many(
        self: Takes5[A, B, D, E, F, Q], calls: Iterable[tuple[A, B, D, E, F]]
    ) -> list[Job[Q]]: ...

    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Job[Any]]:
        """One job for each tuple of arguments, in one transaction."""
        wiring = self._task.wiring
        return wiring.jobs.enqueue(self._new_jobs(calls, wiring.now()), self._options.connection)

    @overload
    async def aenqueue_many(self: Takes0[Q], calls: Iterable[tuple[()]]) -> list[Job[Q]]: ...

    @overload
    async def aenqueue_many(self: Takes1[A, Q], calls: Iterable[tuple[A]]) -> list[Job[Q]]: ...

    @overload
    async def aenqueue_many(
        self: Takes2[A, B, Q], calls: Iterable[tuple[A, B]]
    ) -> list[Job[Q]]: ...

    @overload
    async def aenqueue_many(
        self: Takes3[A, B, D, Q], calls: Iterable[tuple[A, B, D]]
    ) -> list[Job[Q]]: ...

    @overload
    async def aenqueue_many(
        self: Takes4[A, B, D, E, Q], calls: Iterable[tuple[A, B, D, E]]
    ) -> list[Job[Q]]: ...

    @overload
    async def aenqueue_many(
        self: Takes5[A, B, D, E, F, Q], calls: Iterable[tuple[A, B, D, E, F]]
    ) -> list[Job[Q]]: ...

    async def aenqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Job[Any]]:
        """The same for async code."""
        wiring = self._task.wiring
        jobs = self._new_jobs(calls, wiring.now())
        return await wiring.jobs.aenqueue(jobs, self._options.connection)

    def _new_jobs(self, calls: Iterable[tuple[Any, ...]], now: int) -> list[NewJob]:
        return self._new(now, self._task.definition.arguments.encode_many(map(_a_tuple, calls)))

    @property
    def task_name(self) -> str:
        """The name of the task behind it."""
        return self._task.name

    def as_job(self, args: Sequence[Any], kwargs: Mapping[str, Any], now: int) -> NewJob:
        """The job of one call, to be written in a transaction."""
        payload = self._task.definition.arguments.encode(args, kwargs)
        if self._options is _PLAIN:
            # As `_new` does, by far the most often.
            return NewJob(self._known_lane or self._lane(), payload, now)
        return self._new(now, [payload])[0]

    def _new(self, now: int, payloads: Iterable[str]) -> list[NewJob]:
        """The jobs of these payloads, all by the same options."""
        options = self._options
        if options is _PLAIN:
            lane = self._lane()
            return [NewJob(lane, payload, now) for payload in payloads]
        at = planned(now, options.delay, options.at)
        once = None
        if options.once is not None:
            once = FOREVER if options.once == "forever" else now + milliseconds(options.once)
        after = options.after.id if isinstance(options.after, Job) else options.after
        lane = self._lane()
        again = options.when_running == "again"
        expires = None if options.expires is None else at + milliseconds(options.expires)
        more = (at, options.key, once, options.replace, again, expires, options.serial, after)
        jobs = [NewJob(lane, payload, *more) for payload in payloads]
        return self._carrying(jobs, now)

    def _carrying(self, jobs: list[NewJob], now: int) -> list[NewJob]:
        options = self._options
        if not (options.tags or options.headers or options.latest is not None):
            return jobs
        latest = None if options.latest is None else now + milliseconds(options.latest)
        tags, headers = given_tags(options.tags), headers_text(options.headers)
        carried = {"tags": tags, "headers": headers, "latest": latest}
        if latest is None:
            return [job.but(**carried) for job in jobs]
        return [job.but(**carried, at=min(job.at, latest)) for job in jobs]

    def _lane(self) -> LaneName:
        if self._known_lane is None:
            policy, options = self._task.definition.policy, self._options
            self._known_lane = LaneName(
                options.queue or policy.queue,
                self._task.name,
                policy.priority if options.priority is None else options.priority,
            )
        return self._known_lane

    def as_batch(
        self,
        items: Iterable[Any],
        now: int,
        *,
        name: str = "",
        then: Task[..., Any, Any] | Using[..., Any] | None = None,
        key: str | None = None,
        keep: Duration | None = KEEP / 1000,
        member_key: str | None = None,
        once: Duration | Literal["forever"] | None = None,
    ) -> NewBatch:
        """A batch with one job for each item, to be written in a transaction."""
        self._refuse("a batch", "key", "once", "replace", "when_running", "latest")
        if not isinstance(name, str) or (name and not _storable(name)):
            raise UsageError(f"a batch's name is a text of up to {_TEXT_LIMIT} characters")
        if key is not None:
            check_text("key", key)
        terms = self._terms(now, member_key, once)
        members = new_members(self._task.definition, terms, items, now)
        return NewBatch(
            name or self._task.name,
            members.member,
            members.payloads,
            key=key,
            then=None if then is None else then.using().as_follow(),
            keep=None if keep in KEPT_FOREVER else milliseconds(keep),
            keys=members.keys,
            terms=terms,
        )

    def as_schedule(self, options: dict[str, Any], now: int) -> Any:
        """A schedule of the task, to be written in a transaction."""
        return self._task.contents.new_schedule(self, options, now)

    def _terms(
        self, now: int, key: str | None, once: Duration | Literal["forever"] | None
    ) -> MemberTerms:
        """How members of a batch are made by these options."""
        if key is not None:
            check_template("member_key", key, self._task.definition.arguments.names)
        elif once is not None:
            raise UsageError("once= remembers the keys of members: it needs a member_key=")
        options, lane = self._options, self._lane()
        return MemberTerms(
            lane.queue,
            lane.priority,
            delay=0 if options.delay is None else milliseconds(options.delay),
            at=None if options.at is None else planned(now, None, options.at),
            expires=None if options.expires is None else milliseconds(options.expires),
            serial=options.serial,
            after=options.after.id if isinstance(options.after, Job) else options.after,
            key=key,
            once=FOREVER if once == "forever" else None if once is None else milliseconds(once),
            tags=given_tags(options.tags),
            headers=headers_text(options.headers),
        )

    def as_follow(self) -> Follow:
        """This task as what follows a batch; if it takes an argument, that is the batch's id."""
        options = self._options
        what = "a batch's follow-up"
        self._refuse(what, "at", "key", "once", "replace", "when_running", "serial", "after")
        self._refuse(what, "tags", "headers", "latest")
        codec = self._task.definition.arguments
        try:
            codec.encode((1,) if codec.first else (), {})
        except InvalidArguments as error:
            message = f"{what} takes no argument, or the batch's id (an int) alone: {error}"
            raise InvalidArguments(message) from None
        return Follow(
            self._lane(),
            codec.first,
            delay=0 if options.delay is None else milliseconds(options.delay),
            expires=None if options.expires is None else milliseconds(options.expires),
        )

    def _refuse(self, what: str, *names: str) -> None:
        for name in names:
            if getattr(self._options, name) not in (None, False):
                raise UsageError(f"{what} cannot have {name}=")


def new_members(task: Definition, terms: MemberTerms, items: Iterable[Any], now: int) -> NewMembers:
    """A job for each item; a tuple is a list of arguments, anything else is the one argument."""
    if isinstance(items, (str, bytes)):
        raise UsageError("the items of a batch are a list or another iterable, not a text")
    calls = (item if isinstance(item, tuple) else (item,) for item in items)
    payloads: list[str] = []
    try:
        for payload in task.arguments.encode_many(calls):
            payloads.append(payload)  # noqa: PERF402 - one by one, to know which does not fit
    except InvalidArguments as error:
        raise InvalidArguments(f"item {len(payloads)} of the batch: {error}") from None
    member, template = terms.job(task.name, now), terms.key
    if template is None:
        return NewMembers(member, payloads)
    return NewMembers(member, payloads, [_key(task, template, payload) for payload in payloads])


def _key(task: Definition, template: str, payload: str) -> str:
    """The key of a member, from its arguments as the task gets them."""
    try:
        key = template.format(**task.arguments.named(payload))
    except (LookupError, AttributeError, ValueError, TypeError) as error:
        raise UsageError(
            f"member_key={template!r} does not fit the arguments {payload:.100}: {error}"
        ) from None
    check_text("key", key)
    return key


def _a_tuple(call: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(call, tuple):
        raise UsageError(f"enqueue_many takes tuples of arguments, such as ('ada',): not {call!r}")
    return call


def _options(known: Options, more: Mapping[str, Any]) -> Options:
    try:
        return replace(known, **more)
    except TypeError:
        allowed = ", ".join(Options.__slots__)
        unknown = ", ".join(sorted(more.keys() - set(Options.__slots__)))
        raise UsageError(f"using() has no {unknown}; it takes: {allowed}") from None


class Task(Using[P, R], Generic[P, R, C]):
    """A function registered with an App or a Part. A plain call stays a plain call."""

    def __init__(self, definition: Definition, contents: Contents) -> None:
        super().__init__(self, _PLAIN)
        self.definition = definition
        self.name = definition.name
        # Of the Part that has declared it, or of the App: in a process of its own a Part may have no App.
        self.contents = contents
        self.__wrapped__ = definition.function
        self.__doc__ = definition.function.__doc__
        self.__name__ = definition.function.__name__

    @property
    def wiring(self) -> Wiring:
        """What is behind its App."""
        if (app := self.contents.app) is None:
            raise UsageError(f"{self.name} belongs to a Part that no App has included yet")
        return app.wiring

    def __call__(self, *args: Any, **kwargs: Any) -> C:
        result: C = self.definition.function(*args, **kwargs)
        return result

    def settled(self, reaction: Callable[..., None]) -> Callable[..., None]:
        """Register `(tx, job, outcome)` to run inside the settle, for done, failed and cancelled."""
        where = f"@{self.name}.settled"
        self.definition.reactions.append(in_settle(where, reaction, "tx, job, outcome"))
        return reaction

    def __repr__(self) -> str:
        return f"<task {self.name}>"


_PLAIN = Options()
