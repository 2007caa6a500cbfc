"""How a delivery is declared: its body and its channels' functions become tasks that the engine runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Unpack, overload

from duework.errors import UsageError
from duework.kernel.run import Run
from duework.kernel.tasks import check_name, leads_with
from duework.shapes.deliveries.channels import Channel, Partial, Senders
from duework.shapes.deliveries.handle import Delivery, DeliveryShape
from duework.shapes.shape import waited_for

if TYPE_CHECKING:
    from duework.part import Part
    from duework.typed.options import PolicyOptions

P = ParamSpec("P")

# Article 003: four attempts, after one, five and thirty minutes.
DEFAULTS: dict[str, Any] = {"retries": 3, "backoff": ("1m", "5m", "30m")}


def declare_delivery(
    part: Part,
    *,
    channels: Mapping[str, Channel],
    partial: Partial = "advance",
    **options: Unpack[PolicyOptions],
) -> _Declare:
    """Declare a delivery: its body chooses channels and payloads, and runs once.

    `partial="advance"`: it is done as soon as one channel was sent, with the failed ones on
    record. `partial="retry-failed"`: the failed ones are retried, and only they.
    With `isolation="process"` the body has a process of its own; channels are sent by the worker.
    """
    if not channels:
        raise UsageError("a delivery needs at least one channel")
    for name, channel in channels.items():
        check_name("channel", name)
        if not isinstance(channel, Channel):
            raise UsageError(f"channel {name}: write Channel(function, …), not {channel!r:.100}")
    if partial not in {"advance", "retry-failed"}:
        raise UsageError("partial= is 'advance' or 'retry-failed'")
    return _Declare(part, channels, partial, {**DEFAULTS, **options})


class _Declare:
    """`@app.delivery(…)`, waiting for its body."""

    def __init__(
        self,
        part: Part,
        channels: Mapping[str, Channel],
        partial: Partial,
        options: dict[str, Any],
    ) -> None:
        self._part = part
        self._channels = channels
        self._partial: Partial = partial
        self._options = options

    @overload
    def __call__(
        self, body: Callable[Concatenate[Run, P], Coroutine[Any, Any, Any]], /
    ) -> Delivery[P]: ...

    @overload
    def __call__(self, body: Callable[Concatenate[Run, P], Any], /) -> Delivery[P]: ...

    @overload
    def __call__(self, body: Callable[P, Any], /) -> Delivery[P]: ...

    def __call__(self, body: Any, /) -> Any:
        contents, options = self._part.contents, self._options
        plan = DeliveryShape(self._channels, self._partial)
        name = options.get("name") or body.__name__
        senders = {each: _sender(plan.senders, each) for each in self._channels}
        isolated = options.get("isolation") is not None
        function = _chooser(plan, body) if isolated else _deliverer(plan, body)
        task = contents.register(function, {**options, "name": name})
        task.definition.reactions.append(plan.ended)
        task.definition.around_child = plan.around_child if isolated else None
        plan.senders.codec = task.definition.arguments
        for each, sender in senders.items():
            chosen = self._sender_options(self._channels[each])
            made = contents.register(sender, {**chosen, "name": f"{name}.{each}"})
            plan.add(each, made.definition)
        contents.adopt(plan)
        return Delivery(task, body, plan)

    def _sender_options(self, channel: Channel) -> dict[str, Any]:
        """How the jobs that send are run; the delivery's own rows are their record."""
        chosen: dict[str, Any] = {"timeout": channel.timeout, "keep": 0, "keep_failed": 0}
        chosen |= {
            each: self._options[each] for each in ("queue", "priority") if each in self._options
        }
        if channel.pace is not None:
            chosen["pace"] = channel.pace
        if channel.resends:
            # A lost reply is made good within the channel: its key makes that safe.
            chosen |= {"retries": self._options["retries"], "backoff": self._options["backoff"]}
        return chosen


def _deliverer(plan: DeliveryShape, body: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind the delivery's job: the body at first, then the verdict."""
    takes_run = leads_with(body, Run)
    if inspect.iscoroutinefunction(body):

        async def adeliver(run: Run, *args: Any, **kwargs: Any) -> Any:
            if channels := plan.channels(run.job.id):
                return plan.go_on(run, channels)
            first = (run,) if takes_run else ()
            return plan.begin(run, plan.choose(await body(*first, *args, **kwargs)))

        return _like(adeliver, body, skip=int(takes_run))

    def deliver(run: Run, *args: Any, **kwargs: Any) -> Any:
        if channels := plan.channels(run.job.id):
            return plan.go_on(run, channels)
        first = (run,) if takes_run else ()
        return plan.begin(run, plan.choose(body(*first, *args, **kwargs)))

    return _like(deliver, body, skip=int(takes_run))


def _chooser(plan: DeliveryShape, body: Callable[..., Any]) -> Callable[..., Any]:
    """The body in a process of its own: it gives the payloads back, and its worker does the rest."""
    takes_run = leads_with(body, Run)

    def choose(run: Run, *args: Any, **kwargs: Any) -> Any:
        first = (run,) if takes_run else ()
        return plan.choose(waited_for(body(*first, *args, **kwargs)))

    made = _like(choose, body, skip=int(takes_run))
    # A fresh process finds it as the delivery that stands at the body's place.
    made.__module__, made.__qualname__ = body.__module__, body.__qualname__
    return made


def _sender(senders: Senders, name: str) -> Callable[..., Any]:
    """The function behind the jobs that send one channel."""
    channel = senders.channels[name]
    send, skip = channel.send, int(channel.takes_send)
    if leads_with(send, Run):
        raise UsageError(f"channel {name}: what sends gets its payload, a key or a Send, not a Run")
    if inspect.iscoroutinefunction(send):

        async def asend(run: Run, *args: Any, **kwargs: Any) -> Any:
            return await senders.asend(run, name, args, kwargs)

        return _like(asend, send, skip=skip, without="key")

    def sync(run: Run, *args: Any, **kwargs: Any) -> Any:
        return senders.send(run, name, args, kwargs)

    return _like(sync, send, skip=skip, without="key")


def _like(
    made: Callable[..., Any], given: Callable[..., Any], *, skip: int, without: str = ""
) -> Callable[..., Any]:
    """`made(run, …)` with the arguments of `given`, as the codec of stored arguments reads them."""
    signature = inspect.signature(given)
    hints = typing.get_type_hints(given, include_extras=True)
    rest = [each for each in list(signature.parameters.values())[skip:] if each.name != without]
    run = inspect.Parameter("run", inspect.Parameter.POSITIONAL_ONLY)
    # A sender's own argument may be called `run` too; the first one is never passed by name.
    first = run if all(each.name != "run" for each in rest) else run.replace(name="run_")
    made.__annotations__ = {first.name: Run} | {
        each.name: hints[each.name] for each in rest if each.name in hints
    }
    made.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[first, *rest], return_annotation=inspect.Signature.empty
    )
    made.__doc__ = given.__doc__
    # For messages; no fresh process could find it by its name.
    made.__qualname__ = f"<{given.__qualname__}>"
    return made
