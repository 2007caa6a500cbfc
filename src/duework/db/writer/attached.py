"""Attached requests: they wait for another one, to share its transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from duework.db.writer.requests import AttachedRequest, Request


class AttachedRequests:
    """What was left with a writer, and of that, what goes along with the group it is at."""

    def __init__(self) -> None:
        self.left: deque[AttachedRequest] = deque()
        self.along: list[AttachedRequest] = []

    def leave(self, request: AttachedRequest) -> None:
        """Have it run in the transaction of the next request that it goes along with, if one comes."""
        self.left.append(request)

    def take_back(self, request: AttachedRequest) -> bool:
        """Take it out of the line; False if it has begun already."""
        try:
            self.left.remove(request)
        except ValueError:
            return False
        return True

    def beside(self, group: Sequence[Request]) -> list[AttachedRequest]:
        """Those that would go along with one of these."""
        return [each for each in self.left.copy() if any(map(each.beside, group))]

    def choose(self, group: Sequence[Request]) -> None:
        """Note what goes along with this group."""
        self.along = self.beside(group)

    def begin(self) -> list[AttachedRequest]:
        """Of these, what has not begun and was not taken back."""
        found = [each for each in self.along if not each.begun and self.take_back(each)]
        for request in found:
            request.begun = True
        return found

    def undo(self, along: Sequence[Request]) -> None:
        """What went along with a transaction that failed did not happen either."""
        for request in along:
            request.value = None

    def over(self) -> list[AttachedRequest]:
        """The group is at its end: what is to be answered with it."""
        along, self.along = [each for each in self.along if each.begun], []
        return along
