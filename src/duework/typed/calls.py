"""Calls whose arguments follow from the task that they name, for type checkers.

`Takes1[int]` is whatever can be enqueued with one `int`: a task or `task.using(…)`, also if it has defaults
for more. A tuple cannot be checked against any number of parameters, so there is one of these for each number
up to five.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, overload

if TYPE_CHECKING:
    from duework.handles import Job
    from duework.kernel.job import NewJob
    from duework.typed.options import BatchOptions, ScheduleOptions

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
A_contra = TypeVar("A_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
E_contra = TypeVar("E_contra", contravariant=True)
R = TypeVar("R")
M_co = TypeVar("M_co", covariant=True)


class Takes0(Protocol[R]):
    def enqueue(self) -> Job[R]: ...


class Takes1(Protocol[A_contra, R]):
    def enqueue(self, a: A_contra, /) -> Job[R]: ...


class Takes2(Protocol[A_contra, B_contra, R]):
    def enqueue(self, a: A_contra, b: B_contra, /) -> Job[R]: ...


class Takes3(Protocol[A_contra, B_contra, C_contra, R]):
    def enqueue(self, a: A_contra, b: B_contra, c: C_contra, /) -> Job[R]: ...


class Takes4(Protocol[A_contra, B_contra, C_contra, D_contra, R]):
    def enqueue(self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, /) -> Job[R]: ...


class Takes5(Protocol[A_contra, B_contra, C_contra, D_contra, E_contra, R]):
    def enqueue(
        self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, e: E_contra, /
    ) -> Job[R]: ...


class MakesBatch(Protocol[M_co]):
    """One job for each item, in one transaction: a tuple is a list of arguments."""

    @overload
    def __call__(
        self, task: Takes1[A, Any], items: Iterable[A], /, **options: Unpack[BatchOptions]
    ) -> M_co: ...

    @overload
    def __call__(
        self, task: Takes1[A, Any], items: Iterable[tuple[A]], /, **options: Unpack[BatchOptions]
    ) -> M_co: ...

    @overload
    def __call__(
        self,
        task: Takes2[A, B, Any],
        items: Iterable[tuple[A, B]],
        /,
        **options: Unpack[BatchOptions],
    ) -> M_co: ...

    @overload
    def __call__(
        self,
        task: Takes3[A, B, C, Any],
        items: Iterable[tuple[A, B, C]],
        /,
        **options: Unpack[BatchOptions],
    ) -> M_co: ...

    @overload
    def __call__(
        self,
        task: Takes4[A, B, C, D, Any],
        items: Iterable[tuple[A, B, C, D]],
        /,
        **options: Unpack[BatchOptions],
    ) -> M_co: ...

    @overload
    def __call__(
        self,
        task: Takes5[A, B, C, D, E, Any],
        items: Iterable[tuple[A, B, C, D, E]],
        /,
        **options: Unpack[BatchOptions],
    ) -> M_co: ...


class MakesSchedule(Protocol[M_co]):
    """Let a task be fired by cron=, every=, rrule= or at=; with arguments it needs a key."""

    @overload
    def __call__(
        self,
        task: Takes0[Any],
        /,
        *,
        args: tuple[()] = (),
        key: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> M_co: ...

    @overload
    def __call__(
        self,
        task: Takes1[A, Any],
        /,
        *,
        args: tuple[A],
        key: str,
        **options: Unpack[ScheduleOptions],
    ) -> M_co: ...

    @overload
    def __call__(
        self,
        task: Takes2[A, B, Any],
        /,
        *,
        args: tuple[A, B],
        key: str,
        **options: Unpack[ScheduleOptions],
    ) -> M_co: ...

    @overload
    def __call__(
        self,
        task: Takes3[A, B, C, Any],
        /,
        *,
        args: tuple[A, B, C],
        key: str,
        **options: Unpack[ScheduleOptions],
    ) -> M_co: ...

    @overload
    def __call__(
        self,
        task: Takes4[A, B, C, D, Any],
        /,
        *,
        args: tuple[A, B, C, D],
        key: str,
        **options: Unpack[ScheduleOptions],
    ) -> M_co: ...


class Enqueues(Protocol[P]):
    """A task, or `task.using(…)`."""

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> object: ...

    def as_job(self, args: Sequence[Any], kwargs: Mapping[str, Any], now: int) -> NewJob: ...


class Starts(Protocol[P]):
    """A chain's task, or `chain.using(…)`."""

    def start(self, *args: P.args, **kwargs: P.kwargs) -> object: ...

    def as_chain(self, args: Sequence[Any], kwargs: Mapping[str, Any], now: int) -> Any: ...


class Submits(Protocol[A_contra]):
    """An outbox, or `outbox.using(…)`."""

    def enqueue(self, message: A_contra) -> object: ...

    def as_message(self, message: A_contra, now: int) -> Any: ...
