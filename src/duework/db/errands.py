"""Errands: requests that wait for another one, to go along with it in its transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from duework.db.requests import Errand, Request


class Errands:
    """What was left with a writer, and of that, what goes along with the group it is at."""

    def __init__(self) -> None:
        self.left: deque[Errand] = deque()
        self.along: list[Errand] = []

    def leave(self, errand: Errand) -> None:
        """Have it run in the transaction of the next request that it goes along with, if one comes."""
        self.left.append(errand)

    def take_back(self, errand: Errand) -> bool:
        """Whether nobody has begun with it; now nobody will."""
        try:
            self.left.remove(errand)
        except ValueError:
            return False
        return True

    def beside(self, group: Sequence[Request]) -> list[Errand]:
        """Those that would go along with one of these."""
        return [each for each in self.left.copy() if any(map(each.beside, group))]

    def choose(self, group: Sequence[Request]) -> None:
        """Let what goes along with the group do so."""
        self.along = self.beside(group)

    def begin(self) -> list[Errand]:
        """Of these, what nobody has begun with and nobody has taken back."""
        found = [each for each in self.along if not each.begun and self.take_back(each)]
        for errand in found:
            errand.begun = True
        return found

    def undo(self, along: Sequence[Request]) -> None:
        """What went along with a transaction that failed did not happen either."""
        for request in along:
            request.value = None

    def over(self) -> list[Errand]:
        """The group is at its end: what is to be answered with it."""
        along, self.along = [each for each in self.along if each.begun], []
        return along
