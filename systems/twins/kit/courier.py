"""What a twin sends by itself: webhooks and pushes, with the upstream's own times of repetition.

An item is due by the twin's clock, and a look at what is due is taken every 50 ms of real time;
under a standing clock `settle` waits until everything due has been sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httpx2

from systems.twins.kit.clock import Now

LOOK = 0.05


@dataclass(slots=True)
class Parcel:
    url: str
    body: bytes
    # Headers are made anew for each attempt: a signature holds its time.
    headers: Callable[[int], dict[str, str]]
    # Waits in milliseconds before the second attempt, the third and so on.
    waits: Sequence[int]
    due: int
    id: str = ""
    patience: float = 15.0
    answers: list[int | None] = field(default_factory=list)
    done: bool = False

    @property
    def accepted(self) -> bool:
        return bool(self.answers) and self.answers[-1] is not None and self.answers[-1] < 300


class Courier:
    def __init__(self, now: Now, tick: Callable[[], None]) -> None:
        self._now = now
        # What else becomes due with time, before anything is sent.
        self._tick = tick
        self._client: httpx2.AsyncClient | None = None
        self._looking: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self.parcels: list[Parcel] = []

    async def start(self) -> None:
        self._client = httpx2.AsyncClient(follow_redirects=False, trust_env=False)
        self._looking = asyncio.create_task(self._look())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    def clear(self) -> None:
        self.parcels = []

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self.settle()

    async def settle(self) -> None:
        """Send what is due now, until nothing is."""
        async with self._turn:
            self._tick()
            while due := [p for p in self.parcels if not p.done and p.due <= self._now()]:
                await asyncio.gather(*(self._send(parcel) for parcel in due))

    async def _send(self, parcel: Parcel) -> None:
        parcel.answers.append(await self._attempt(parcel))
        attempts = len(parcel.answers)
        if parcel.accepted or attempts > len(parcel.waits):
            parcel.done = True
        else:
            parcel.due = self._now() + parcel.waits[attempts - 1]

    async def _attempt(self, parcel: Parcel) -> int | None:
        assert self._client is not None
        try:
            async with asyncio.timeout(parcel.patience):
                reply = await self._client.post(
                    parcel.url, content=parcel.body, headers=parcel.headers(self._now())
                )
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError):
            return None
        return reply.status_code

    async def get(self, url: str, query: dict[str, str], patience: float) -> httpx2.Response | None:
        """Ask somebody something at once; None if there is no answer in time."""
        assert self._client is not None
        try:
            async with asyncio.timeout(patience):
                return await self._client.get(url, params=query)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError):
            return None
