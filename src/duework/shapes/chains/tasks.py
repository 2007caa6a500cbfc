"""`@app.chain`: a function that does one page, as a task of which each page is a job.

The task's own function wraps the user's: it reads which page its job is, hands over a `Page`, and turns
what comes back into the job's result, from which `verbs.py` goes on inside the settle. So a page may
run anywhere a job may, in a process of its own too.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, Unpack

import msgspec

from duework.averbs import Verbs
from duework.codec import check_template
from duework.durations import Duration, Moment, milliseconds, planned
from duework.errors import UsageError
from duework.kernel.job import LaneName, NewJob
from duework.kernel.outcomes import Cancel, Outcome
from duework.kernel.run import Run, Write, buffer_of
from duework.kernel.surroundings.reactions import reaction as in_settle
from duework.kernel.tasks import check_name, check_priority
from duework.shapes.chains import SHAPE
from duework.shapes.chains.handle import Chain, ChainState, End, Next, Page, check_size
from duework.shapes.chains.verbs import CHAINS, STOPPED, Chains, NewChain
from duework.shapes.graph import Node
from duework.shapes.shape import Hooks, Shape
from duework.task import Task

if TYPE_CHECKING:
    from duework.kernel.tasks import Definition
    from duework.part import Part
    from duework.typed.options import ChainOptions, PolicyOptions
    from duework.wiring import Wiring

P = ParamSpec("P")
Said = Next | End | Outcome
PageFunction = Callable[Concatenate[Page, P], Awaitable[Said] | Said]
# The number of retries before a page counts as failed.
RETRIES = 3
KEY_LIMIT = 500


@dataclass(frozen=True, slots=True)
class StartOptions:
    """What `using(…)` takes."""

    key: str | None = None
    page_size: int | None = None
    delay: Duration | None = None
    at: Moment | None = None
    priority: int | None = None
    queue: str | None = None

    def __post_init__(self) -> None:
        if self.delay is not None and self.at is not None:
            raise UsageError("give delay= or at=, not both")
        if self.page_size is not None:
            check_size(self.page_size)
        if self.priority is not None:
            check_priority(self.priority)
        if self.queue is not None:
            check_name("queue", self.queue)
        if self.key is not None:
            check_key(self.key)


def check_key(key: str) -> str:
    fits = isinstance(key, str) and 0 < len(key) <= KEY_LIMIT and key.isprintable()
    if not fits:
        raise UsageError(f"a key is a text of 1 to {KEY_LIMIT} characters, not {key!r:.100}")
    return key


class ChainTask(Generic[P]):
    """A function that does one page, registered with an App or a Part; `start` starts a chain."""

    def __init__(
        self, task: Task[..., Any, Any], function: PageFunction[P], size: int, key: str | None
    ) -> None:
        self._task = task
        self._size = check_size(size)
        self._key = key
        self._signature = _without_first(inspect.signature(function))
        if key is not None:
            check_template("key", key, self._signature.parameters)
        self.finishers: list[Callable[..., Any]] = []
        self.reactions: list[Callable[..., None]] = []
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self.__name__ = task.__name__

    @property
    def name(self) -> str:
        """Under which its pages are jobs."""
        return self._task.name

    @property
    def definition(self) -> Definition:
        """The task of which each page is a job."""
        return self._task.definition

    def __call__(self, page: Page, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.__wrapped__(page, *args, **kwargs)

    def using(self, **options: Unpack[ChainOptions]) -> Starting[P]:
        """Options for the next start: key, page_size, delay, at, priority, queue."""
        return Starting(self, _options(StartOptions(), options), lambda: self._task.wiring)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Chain:
        """Start a chain; if one of its key is active, that one, with `existed` set."""
        return self.using().start(*args, **kwargs)

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Chain:
        """The same for async code."""
        return await self.using().astart(*args, **kwargs)

    def finished(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register `(tx, chain)` to run in the transaction that ends a chain well.

        Counts that it returns are added to the chain's. If it raises, the last page has failed.
        """
        self.finishers.append(in_settle(f"@{self.name}.finished", function, "tx, chain"))
        return function

    def settled(self, reaction: Callable[..., None]) -> Callable[..., None]:
        """Register `(tx, chain, outcome)` to run when a chain is done, failed or cancelled."""
        where = f"@{self.name}.settled"
        self.reactions.append(in_settle(where, reaction, "tx, chain, outcome"))
        return reaction

    def as_chain(self, args: Sequence[Any], kwargs: Mapping[str, Any], now: int) -> NewChain:
        """A chain with these arguments, to be written in a transaction."""
        return self.new_chain(args, kwargs, StartOptions(), now)

    def new_chain(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], options: StartOptions, now: int
    ) -> NewChain:
        """The same with options."""
        definition = self.definition
        payload = definition.arguments.encode(args, kwargs)
        key = options.key
        if key is None and self._key is not None:
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            key = check_key(self._key.format(**bound.arguments))
        at = planned(now, options.delay, options.at)
        policy = definition.policy
        priority = policy.priority if options.priority is None else options.priority
        lane = LaneName(options.queue or policy.queue, self.name, priority)
        return NewChain(lane, payload, options.page_size or self._size, at, key)

    def __repr__(self) -> str:
        return f"<chain task {self.name}>"


class DeclaredChain(Hooks):
    """The hooks of one declared chain: its App learns what to do at the end of one."""

    shape: ClassVar[Shape] = SHAPE

    def __init__(self, task: ChainTask[...]) -> None:
        self._task = task

    def declared(self) -> list[Node]:
        """The chain, and the task of its pages."""
        return [Node("chain", self._task.name, "", (f"task:{self._task.name}",))]

    def bind(self, wiring: Wiring) -> None:
        wiring.find(ChainVerbs).chains.tasks[self._task.name] = self._task


class Starting(Generic[P]):
    """A chain's task with options for the next start."""

    def __init__(
        self, task: ChainTask[P], options: StartOptions, wiring: Callable[[], Wiring]
    ) -> None:
        self._task = task
        self._options = options
        # Of the App that it will have by then.
        self._wiring = wiring

    def using(self, **options: Unpack[ChainOptions]) -> Starting[P]:
        """The same with more options."""
        return Starting(self._task, _options(self._options, options), self._wiring)

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Chain:
        """Start a chain; durable when this returns."""
        wiring = self._wiring()
        new = self.as_chain(args, kwargs, wiring.now())
        return wiring.engine.writer.call(wiring.find(ChainVerbs).chains.start_all, [new])[0]

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Chain:
        """The same for async code."""
        wiring = self._wiring()
        new = self.as_chain(args, kwargs, wiring.now())
        start = wiring.find(ChainVerbs).chains.start_all
        return (await wiring.engine.writer.acall(start, [new]))[0]

    def as_chain(self, args: Sequence[Any], kwargs: Mapping[str, Any], now: int) -> NewChain:
        """A chain with these arguments and options, to be written in a transaction."""
        return self._task.new_chain(args, kwargs, self._options, now)


def _options(known: StartOptions, more: Mapping[str, Any]) -> StartOptions:
    if unknown := more.keys() - set(StartOptions.__slots__):
        allowed = ", ".join(StartOptions.__slots__)
        raise UsageError(f"using() has no {', '.join(sorted(unknown))}; it takes: {allowed}")
    return replace(known, **more)


def _without_first(signature: inspect.Signature) -> inspect.Signature:
    return signature.replace(parameters=list(signature.parameters.values())[1:])


# --- the function that the worker calls


def _wrapped(function: PageFunction[P]) -> Callable[..., Any]:
    """The user's function as one that takes a `Run`; found by its module and name like the user's."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or typing.get_type_hints(function).get(parameters[0].name) is not Page:
        name = getattr(function, "__qualname__", function)
        raise UsageError(f"the first parameter of the chain {name} is annotated `Page`")
    call: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        async def call(run: Run, *args: Any, **kwargs: Any) -> Any:
            page = _begin(run)
            if not isinstance(page, Page):
                return page
            return _conclude(page, await function(page, *args, **kwargs))

    else:

        def call(run: Run, *args: Any, **kwargs: Any) -> Any:
            page = _begin(run)
            if not isinstance(page, Page):
                return page
            return _conclude(page, function(page, *args, **kwargs))

    call = functools.wraps(function)(call)
    first = parameters[0].replace(annotation=Run)
    call.__signature__ = inspect.Signature([first, *parameters[1:]])  # type: ignore[attr-defined]
    call.__annotations__ = {**function.__annotations__, first.name: Run, "return": Next | End}
    return call


def _begin(run: Run) -> Page | End | Outcome:
    """The page that a job is, or at once what becomes of it."""
    rows = run.read(CHAINS.begin.sqlite, job=run.job.id)
    if not rows:
        return Cancel("it belongs to no page of a chain")
    if rows[0].chain_state in {"cancelled", "done"}:
        return Cancel(STOPPED)
    if rows[0].finishing:
        # It was done when its chain was cancelled, and was the last: only the end is left.
        return End()
    if rows[0].state == "done":
        return Cancel("its page is done already")
    return Page(run, rows[0])


def _conclude(page: Page, said: Any) -> Any:
    if isinstance(said, Outcome):
        return said
    if not isinstance(said, (Next, End)):
        raise UsageError(f"a page returns Next(cursor=…) or End(), not {type(said).__name__}")
    said = msgspec.structs.replace(said, expected=page.expected)
    if isinstance(said, Next):
        if said.cursor == page.cursor:
            raise UsageError(f"the cursor did not move: page {page.number} started at it too")
        if said.delay is not None:
            said = msgspec.structs.replace(said, delay=milliseconds(said.delay) / 1000)
    run, ours = page.run, said
    if any(not isinstance(each, (Write, NewJob)) for each in buffer_of(run).effects):
        # What a function given to `run.commit` returns would become the result instead.
        run.commit(lambda _: ours)
    return said


# --- what App and Part have of this


def declare_chain(
    part: Part, *, page_size: int = 1000, key: str | None = None, **options: Unpack[PolicyOptions]
) -> Callable[[PageFunction[P]], ChainTask[P]]:
    """Register a function `(page: Page, …) -> Next | End` that does one page of a chain.

    `key` is a text with the names of arguments in braces: at most one active chain has it.
    Other options are those of a task, for its pages.
    """

    def decorate(function: PageFunction[P]) -> ChainTask[P]:
        check_size(page_size)
        wrapped = _wrapped(function)
        if key is not None:
            check_template("key", key, _without_first(inspect.signature(function)).parameters)
        task = part.contents.register(wrapped, {"retries": RETRIES, **options})
        made = ChainTask(task, function, page_size, key)
        part.contents.adopt(DeclaredChain(made))
        return made

    return decorate


class ChainVerbs(Verbs):
    """What an App has to find chains."""

    def __init__(self, wiring: Wiring) -> None:
        super().__init__(wiring)
        self.chains = Chains()

    def get(self, identifier: int) -> Chain:
        """The chain as it is now; `NotFound` if there is none."""
        return self.chains.get(identifier)

    def search(
        self,
        *,
        state: ChainState | None = None,
        task: str = "",
        key: str = "",
        before: int = 2**62,
        limit: int = 50,
    ) -> list[Chain]:
        """Chains, newest first; go on with `before=` the last id."""
        wanted = {"state": state or "", "task": task, "key": key}
        return self.chains.search(**wanted, before=before, limit=limit)
