"""The functions behind a subscriber's jobs: the user's own, with one event or with a bulk of them."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from duework.errors import Conflict, InvalidArguments, UsageError
from duework.kernel.error_text import describe, said
from duework.kernel.moves import complete
from duework.kernel.outcomes import Outcome, Retry, Snooze, Throttled
from duework.kernel.run import Run, buffer_of
from duework.kernel.tasks import leads_with
from duework.shapes.events import verbs
from duework.shapes.events.verbs import EVENTS, BulkSplit, Event

if TYPE_CHECKING:
    from duework.db.database import Tx
    from duework.kernel.engine import Engine
    from duework.kernel.tasks import Definition

Handler = Callable[..., Any]


def kind_of(function: Handler, *, bulk: bool) -> Any:
    """The annotation of one event, from what the function takes; a clear error if it takes something else."""
    name = getattr(function, "__qualname__", function)
    parameters = list(inspect.signature(function).parameters.values())[
        int(leads_with(function, Run)) :
    ]
    hint = typing.get_type_hints(function).get(parameters[0].name) if parameters else None
    if bulk and typing.get_origin(hint) is list:
        hint = typing.get_args(hint)[0]
    elif bulk:
        hint = None
    if len(parameters) != 1 or not (hint is Event or typing.get_origin(hint) is Event):
        wanted = "list[Event]" if bulk else "Event"
        raise UsageError(
            f"{name} takes one argument annotated `{wanted}`, after a `Run` if it wants"
        )
    return hint


def single(function: Handler, *, bulk: bool) -> Handler:
    """The user's function as a task that takes one event; found by its module and name like the user's."""
    takes_run, kind = leads_with(function, Run), kind_of(function, bulk=bulk)

    def given(run: Run, event: Any) -> tuple[Any, ...]:
        one = [event] if bulk else event
        return (run, one) if takes_run else (one,)

    call: Handler
    if inspect.iscoroutinefunction(function):

        async def call(run: Run, event: Any) -> Any:
            return _said(await function(*given(run, event)), bulk=bulk)

    else:

        def call(run: Run, event: Any) -> Any:
            return _said(function(*given(run, event)), bulk=bulk)

    call = functools.wraps(function)(call)
    call.__annotations__ = {"run": Run, "event": kind, "return": Any}
    keyed = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(each, keyed) for each in ("run", "event")]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _said(answer: Any, *, bulk: bool) -> Any:
    return Retry(None, "it was given back") if bulk and _given_back(answer) else answer


def _given_back(answer: Any) -> set[int]:
    """The events that a function returned to run again; whatever else it returned says nothing."""
    listed = answer if isinstance(answer, (list, tuple, set)) else ()
    return {each.id for each in listed if isinstance(each, Event)}


class Bulks:
    """How one subscriber's bulks are run."""

    def __init__(self, function: Handler, size: int, engine: Callable[[], Engine]) -> None:
        self._function = function
        self._takes_run = leads_with(function, Run)
        self._size = size
        self._engine = engine
        # The task of its single events; set once it is registered.
        self.definition: Definition

    def runner(self) -> Handler:
        """The function behind the job that runs the next bulk."""
        if inspect.iscoroutinefunction(self._function):

            async def abulk(run: Run, subscriber: str) -> Outcome | None:
                events, odd = self._next(run, subscriber)
                try:
                    back = await self._function(*self._given(run, events)) if events else None
                except (Snooze, Throttled):
                    raise
                except Exception as error:  # noqa: BLE001 - whatever it raises, each event runs alone
                    self._failed(run, subscriber, {**events, **odd}, describe(error))
                    return None
                return self._went(run, subscriber, events, odd, back)

            return abulk

        def bulk(run: Run, subscriber: str) -> Outcome | None:
            events, odd = self._next(run, subscriber)
            try:
                back = self._function(*self._given(run, events)) if events else None
            except (Snooze, Throttled):
                raise
            except Exception as error:  # noqa: BLE001 - whatever it raises, each event runs alone
                self._failed(run, subscriber, {**events, **odd}, describe(error))
                return None
            return self._went(run, subscriber, events, odd, back)

        return bulk

    def _given(self, run: Run, events: dict[int, Any]) -> tuple[Any, ...]:
        listed = list(events.values())
        return (run, listed) if self._takes_run else (listed,)

    def _next(self, run: Run, name: str) -> tuple[dict[int, Any], dict[int, Any]]:
        """The events of the next bulk by their jobs, and those that are to run alone."""
        with self._engine().database.reading() as tx:
            rows = tx.query(EVENTS.to_run, {"name": name, "wanted": self._size})
        if run.job.failures or run.job.crashes:
            # It took too long, or its process with it: one of them may do so again, and no other with it.
            return {}, {job: None for job, _ in rows}
        events: dict[int, Any] = {}
        odd: dict[int, Any] = {}
        for job, payload in rows:
            try:
                events[job] = self.definition.arguments.decode(payload)[0][0]
            except InvalidArguments:
                # Its own attempt says so, and leaves it to a worker of another version.
                odd[job] = None
        return events, odd

    def _failed(self, run: Run, name: str, jobs: dict[int, Any], why: str) -> None:
        # What it has asked for goes with the attempts to come.
        buffer_of(run).effects.clear()
        self._end(run, name, [], sorted(jobs), why)

    def _went(
        self, run: Run, name: str, events: dict[int, Any], odd: dict[int, Any], back: Any
    ) -> Outcome | None:
        if isinstance(back, (Snooze, Throttled)):
            return back
        if isinstance(back, Outcome):
            self._failed(run, name, {**events, **odd}, said(back))
            return None
        returned = _given_back(back)
        again = [job for job, event in events.items() if event.id in returned]
        done = [job for job in events if job not in again]
        self._end(run, name, done, sorted([*again, *odd]), "it was given back")
        return None

    def _end(
        self, run: Run, name: str, done: Sequence[int], alone: Sequence[int], why: str
    ) -> None:
        """End each event by itself, with the settle of the job that ran them, and see to the next bulk."""
        engine, job, keep = self._engine(), run.job.id, self.definition.keep_ms

        def end(tx: Tx) -> None:
            if len(complete(tx, done, engine.settle_context(), keep=keep)) < len(done):
                # One of them has run by itself meanwhile, or was cancelled: nothing of this may count.
                raise Conflict(f"an event of this bulk for {name} was taken out while it ran")
            verbs.run_alone(tx, name, alone, engine)
            verbs.run_next(tx, name, engine, ended=job)
            if alone:
                tx.after_commit.append(partial(engine.emit, BulkSplit(name, len(alone), why)))

        buffer_of(run).add(end)
