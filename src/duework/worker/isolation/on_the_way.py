"""Effects of a task with a process of its own, as data on their way to its parent, which runs them."""

from __future__ import annotations

from typing import Any

from duework.kernel.job import NewJob


class OnTheWay:
    """An effect that the parent is going to run."""

    def __call__(self, tx: Any) -> None:  # noqa: ARG002 - never called
        raise AssertionError("effects of an isolated task are run by its parent")


class JobsOnTheWay(OnTheWay):
    """Enqueued jobs on their way to the parent."""

    def __init__(self, jobs: list[NewJob]) -> None:
        self.jobs = jobs


class ItemOnTheWay(OnTheWay):
    """What a shape is to write, on its way to the parent."""

    def __init__(self, name: str, item: Any) -> None:
        self.name = name
        self.item = item
