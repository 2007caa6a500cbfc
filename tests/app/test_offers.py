"""Jobs that another process claims for a worker that has nothing to do.

Another App on the same database is as good as another process: it has its own writer, connection and
doorbell.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duework import App, Rate
from duework.db.database import Retryable, Tx
from duework.kernel.claim import ClaimRequest
from duework.kernel.job import Claimed, JobId, LaneName
from duework.worker.attempts import Attempts
from duework.worker.handoff import handoff
from duework.worker.handoff.board import OfferBoard
from duework.worker.handoff.offer import PAYLOAD_LIMIT, SIZE, ForeignOffer, Offer
from duework.worker.wake.doorbell import Doorbell
from duework.worker.worker import Worker
from tests.app.test_doorbell import define, others
from tests.app.test_handoff import Commits, Crowd, at_rest, sleeping, until

__all__ = ["others"]

# Far less than a lease, also on a machine with other things to do.
SOON = 8


class Handing:
    """What an App hands over, and what becomes of it."""

    def __init__(self, app: App, kind: str, *, keep: bool = False) -> None:
        self.messages: list[tuple[ForeignOffer, bytes]] = []
        if kind == "sqlite":
            board = app.wiring.engine.offers
            assert isinstance(board, OfferBoard)
            self.hand_over = board.deliver
            board.deliver = self._noted  # type: ignore[method-assign]
        self._keep = keep
        self.wanted = int(kind == "sqlite")

    def _noted(self, taken: ForeignOffer, message: bytes) -> None:
        self.messages.append((taken, message))
        if not self._keep:
            self.hand_over(taken, message)

    def deliver(self, times: int = 1) -> None:
        """Hand over what was kept, however late."""
        for taken, message in self.messages * times:
            self.hand_over(taken, message)


@contextlib.asynccontextmanager
async def resting(app: App, note: Any, crowd: Crowd, queues: Any = None) -> AsyncIterator[Worker]:
    """A worker that others know, since it has worked before, and that has nothing to do."""
    async with sleeping(app, queues) as worker:
        before = crowd.over
        await asyncio.to_thread(note.enqueue, 0)
        await until(lambda: crowd.over == before + 1)
        # Not while its outcome is being written: until then it runs something.
        await until(lambda: not worker._attempts.leases)  # noqa: SLF001 - what it holds is the point
        await at_rest(worker)
        yield worker


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


@pytest.fixture
def note(app: App, others: App, crowd: Crowd) -> Any:
    """The task as the others know it."""
    return define(app, others, crowd)


async def ran(crowd: Crowd, count: int) -> None:
    """Until so many have, soon."""
    await asyncio.wait_for(until(lambda: crowd.over == count), SOON)


def states(app: App) -> set[tuple[str, int]]:
    return {(job.state, job.fence) for job in app.jobs(task="note")}


def test_a_job_starts_without_another_commit(app: App, others: App, kind: str) -> None:
    crowd, counts, commits = Crowd(), list[int](), Commits(app)

    class Counted(Crowd):
        async def note(self, number: int) -> None:
            counts.append(commits.count)
            await super().note(number)

    crowd = Counted()
    note = define(app, others, crowd)

    def done(wanted: int) -> bool:
        return crowd.over == wanted

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            for number in (1, 2):
                commits.count = 0
                await asyncio.to_thread(note.enqueue, number)
                await until(partial(done, number + 1))
                await at_rest(worker)

    asyncio.run(program())
    assert counts[1:] == ([0, 0] if kind == "sqlite" else [1, 1])
    assert states(app) == {("done", 1)}


def test_aenqueue_hands_over_as_well(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind)

    async def program() -> None:
        async with resting(app, note, crowd):
            await note.aenqueue(1)
            await until(lambda: crowd.over == 2)

    asyncio.run(program())
    assert len(handing.messages) == handing.wanted
    assert states(app) == {("done", 1)}


def test_a_job_that_nobody_handed_over_is_found(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    # As if its process had been killed after the commit.
    handing = Handing(others, kind, keep=True)

    async def program() -> None:
        async with resting(app, note, crowd):
            await asyncio.to_thread(note.enqueue, 1)
            await ran(crowd, 2)

    asyncio.run(program())
    assert len(handing.messages) == handing.wanted
    assert states(app) == {("done", 1)}


def test_a_job_that_is_handed_over_after_it_was_found_runs_once(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind, keep=True)

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            await asyncio.to_thread(note.enqueue, 1)
            await ran(crowd, 2)
            handing.deliver(times=2)
            await at_rest(worker)
            await asyncio.sleep(0.1)

    asyncio.run(program())
    assert crowd.over == 2
    assert states(app) == {("done", 1)}


def test_a_job_that_is_handed_over_late_runs_at_the_next_opportunity(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind, keep=True)
    if kind == "sqlite":
        # Nor is it seen that it was taken: its process reads the offer, and takes it when it is withdrawn.
        board: Any = app.wiring.engine.offers
        board.own = blind(board.own)

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            await asyncio.to_thread(note.enqueue, 1)
            worker.ring()
            await at_rest(worker)
            handing.deliver()
            await ran(crowd, 2)

    asyncio.run(program())
    assert states(app) == {("done", 1)}


def blind(make: Callable[[int], Offer | None]) -> Callable[[int], Offer | None]:
    def made(worker: int) -> Offer | None:
        offer: Any = make(worker)
        offer.owed = lambda: dict(offer._late)  # noqa: SLF001 - all that is left to it
        return offer  # type: ignore[no-any-return]

    return made


def test_an_enqueue_that_is_undone_and_done_again_runs_once(
    app: App, others: App, kind: str, monkeypatch: pytest.MonkeyPatch, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind)
    database: Any = others.wiring.engine.database
    commit, failed = database.commit, list[int]()

    def fails_once(tx: Tx) -> None:
        if not failed:
            failed.append(1)
            database.rollback()
            raise Retryable("not now")
        commit(tx)

    async def program() -> None:
        async with resting(app, note, crowd):
            monkeypatch.setattr(database, "commit", fails_once)
            await asyncio.to_thread(note.enqueue, 1)
            await ran(crowd, 2)

    asyncio.run(program())
    assert failed
    # Its offer was taken by the first try, and nobody takes it twice.
    assert handing.messages == []
    assert states(app) == {("done", 1)}


def test_of_two_that_are_made_at_once_one_is_handed_over(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind, keep=True)

    async def program() -> None:
        async with resting(app, note, crowd):
            note.enqueue(1)
            note.enqueue(2)
            handing.deliver()
            await ran(crowd, 3)

    asyncio.run(program())
    assert len(handing.messages) == handing.wanted
    assert states(app) == {("done", 1)}


@pytest.mark.parametrize(
    "why", ["key", "serial", "delay", "queue", "limit", "pace", "size", "many", "transaction"]
)
def test_what_needs_more_than_a_slot_is_not_handed_over(
    app: App, others: App, kind: str, why: str
) -> None:
    crowd = Crowd()
    options: dict[str, Any] = {"limit": {"concurrency": 1}, "pace": {"pace": Rate("1000/1s")}}
    app.queue("slow", concurrency=1)
    plain = define(app, others, crowd)

    async def more(number: int, text: str = "") -> None:
        await crowd.note(number)

    app.task(name="more", **options.get(why, {}))(more)
    asked = others.task(name="more", **options.get(why, {}))(more)
    using: dict[str, dict[str, Any]] = {
        "key": {"key": "k"},
        "serial": {"serial": "s"},
        "delay": {"delay": "20ms"},
        "queue": {"queue": "slow"},
    }
    handing = Handing(others, kind)

    def enqueue() -> None:
        if why == "many":
            asked.enqueue_many([(1,), (2,)])
        elif why == "transaction":
            with others.transaction() as tx:
                tx.enqueue(asked, 1)
        else:
            text = "x" * PAYLOAD_LIMIT if why == "size" else ""
            asked.using(**using.get(why, {})).enqueue(1, text)

    async def program() -> None:
        async with resting(app, plain, crowd):
            await asyncio.to_thread(enqueue)
            wanted = 3 if why == "many" else 2
            await ran(crowd, wanted)

    asyncio.run(program())
    assert handing.messages == []


def test_nothing_is_handed_over_to_a_worker_that_is_at_work(
    app: App, others: App, kind: str
) -> None:
    crowd, gate = Crowd(), asyncio.Event()
    note = define(app, others, crowd)

    async def wait() -> None:
        await gate.wait()

    app.task(name="wait")(wait)
    waits = others.task(name="wait")(wait)
    handing = Handing(others, kind)

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            await asyncio.to_thread(waits.enqueue)
            await at_rest(worker)
            await asyncio.to_thread(note.enqueue, 1)
            await ran(crowd, 2)
            gate.set()

    asyncio.run(program())
    # It would be kept waiting if that one kept the loop.
    assert len(handing.messages) == handing.wanted


def test_a_worker_serves_only_its_queues(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind)

    async def program() -> None:
        async with resting(app, note.using(queue="mine"), crowd, {"mine"}) as worker:
            await asyncio.to_thread(note.using(queue="mine").enqueue, 1)
            await ran(crowd, 2)
            await at_rest(worker)
            await asyncio.to_thread(note.enqueue, 2)

    asyncio.run(program())
    assert len(handing.messages) == handing.wanted
    assert sorted(job.phase for job in app.jobs(task="note")) == ["done", "done", "ready"]


def test_what_is_handed_over_to_a_worker_that_stops_is_left_to_others(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind, keep=True)

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            note.enqueue(1)
            worker.stop()

    asyncio.run(program())
    assert len(handing.messages) == handing.wanted
    assert crowd.over == 1
    assert sorted(job.phase for job in app.jobs(task="note")) == ["done", "ready"]
    assert app.read("select count(*) as n from duework_worker")[0].n == 0


def test_what_is_taken_while_a_worker_stops_is_left_to_others_as_well(
    app: App, others: App, crowd: Crowd, note: Any
) -> None:
    reached, go = threading.Event(), threading.Event()
    board: Any = others.wiring.engine.offers

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            if board is not None:
                offered = board.offered
                # It has seen the offer, and takes it when that was withdrawn.
                board.offered = lambda lane: (offered(lane), reached.set(), go.wait(10))[0]
            else:
                reached.set()
            enqueued = asyncio.create_task(asyncio.to_thread(note.enqueue, 1))
            await asyncio.to_thread(reached.wait, 10)
            worker.stop()
            asyncio.get_running_loop().call_later(0.1, go.set)
        await enqueued

    asyncio.run(program())
    assert crowd.over == 1
    assert sorted(job.phase for job in app.jobs(task="note")) == ["done", "ready"]
    assert app.read("select count(*) as n from duework_worker")[0].n == 0


def test_no_more_run_than_there_are_slots_however_late_one_is_handed_over(
    url: str, others: App, kind: str
) -> None:
    app = App(url, concurrency=1)
    crowd = Crowd()
    own = app.task(name="note")(crowd.note)
    note = others.task(name="note")(crowd.note)
    handing = Handing(others, kind, keep=True)

    async def program() -> None:
        async with resting(app, note, crowd):
            # Before the worker can look, it has another one.
            note.enqueue(1)
            await own.aenqueue(2)
            handing.deliver()
            await ran(crowd, 3)

    asyncio.run(program())
    assert crowd.most == 1
    assert {job.state for job in app.jobs(task="note")} == {"done"}
    app.close()


def test_a_paused_queue_starts_nothing(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind)

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            await asyncio.to_thread(app.pause, "default")
            await at_rest(worker)
            await asyncio.to_thread(note.enqueue, 1)
            await asyncio.sleep(0.1)
            assert crowd.over == 1
            await asyncio.to_thread(app.resume, "default")
            await ran(crowd, 2)

    asyncio.run(program())
    assert handing.messages == []


def test_what_is_no_job_is_overheard(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            bell = others.wiring.engine.doorbell
            if kind == "sqlite":
                assert isinstance(bell, Doorbell)
                for path in bell.others():
                    bell.send(path, b"")
                    bell.send(path, b"no job")
                    bell.send(path, b"\x92\x01\xa1\xff")
            await at_rest(worker)
            await asyncio.to_thread(note.enqueue, 1)
            await ran(crowd, 2)

    asyncio.run(program())


def test_a_worker_that_is_not_known_any_more_is_given_nothing(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind)

    async def program() -> None:
        async with resting(app, note, crowd):
            with others.transaction() as tx:
                # Somebody took it for dead, and could not take its offer down.
                tx.write("delete from duework_worker")
            await asyncio.to_thread(note.enqueue, 1)
            await ran(crowd, 2)

    asyncio.run(program())
    assert handing.messages == []


def test_a_start_that_fails_ends_the_worker_and_leaves_nothing_leased(
    app: App, monkeypatch: pytest.MonkeyPatch, crowd: Crowd, note: Any
) -> None:
    start = Attempts.start

    def fails(self: Attempts, jobs: Any) -> None:
        if any(each.payload == '{"number":1}' for each in jobs):
            raise RuntimeError("no more threads")
        start(self, jobs)

    async def program() -> None:
        async with resting(app, note, crowd):
            monkeypatch.setattr(Attempts, "start", fails)
            await asyncio.to_thread(note.enqueue, 1)
            await asyncio.sleep(0.2)

    with pytest.raises(RuntimeError, match="no more threads"):
        asyncio.run(asyncio.wait_for(program(), SOON))
    assert sorted(job.phase for job in app.jobs(task="note")) == ["done", "ready"]


def test_what_is_owed_is_looked_for_again_if_it_could_not_be(
    app: App, others: App, kind: str, monkeypatch: pytest.MonkeyPatch, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind, keep=True)
    monkeypatch.setattr(handoff, "FIND_SECONDS", 0.05)

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            await asyncio.to_thread(note.enqueue, 1)
            connection = app.connect()
            if kind == "sqlite":
                connection.set_busy_timeout(10_000)
            connection.execute("begin immediate" if kind == "sqlite" else "begin")
            worker.ring()
            await asyncio.sleep(0.3)
            connection.execute("rollback")
            connection.close()
            await ran(crowd, 2)

    asyncio.run(program())
    assert len(handing.messages) == handing.wanted


def test_what_is_owed_is_found_on_a_full_disk_too(
    app: App, others: App, kind: str, monkeypatch: pytest.MonkeyPatch, crowd: Crowd, note: Any
) -> None:
    Handing(others, kind, keep=True)
    calls: list[int] = []

    async def program() -> None:
        async with resting(app, note, crowd) as worker:
            await asyncio.to_thread(note.enqueue, 1)
            monkeypatch.setattr(app.wiring.engine.database, "disk_full_reason", lambda: "full")
            submit = app.wiring.engine.writer._submit  # noqa: SLF001 - how often it is asked
            monkeypatch.setattr(
                *(app.wiring.engine.writer, "_submit"),
                lambda *asked, **how: (calls.append(1), submit(*asked, **how))[1],
            )
            worker.ring()
            if kind == "sqlite":
                await ran(crowd, 2)
            await asyncio.sleep(0.3)
            monkeypatch.undo()

    asyncio.run(program())
    assert len(calls) < 20


def test_an_enqueue_succeeds_where_nobody_can_be_reached(
    app: App, others: App, monkeypatch: pytest.MonkeyPatch, crowd: Crowd, note: Any
) -> None:

    def no_more(*_: Any, **__: Any) -> Any:
        raise OSError(24, "Too many open files")

    async def program() -> None:
        async with resting(app, note, crowd):
            if isinstance(bell := others.wiring.engine.doorbell, Doorbell):
                bell.close()
                bell._look_at = 0.0  # noqa: SLF001 - it looks anew
            with monkeypatch.context() as patch:
                patch.setattr("duework.worker.wake.doorbell.socket.socket", no_more)
                note.enqueue(1)
            await ran(crowd, 2)

    asyncio.run(program())


def test_a_worker_inside_another_program_offers_nothing(
    app: App, others: App, kind: str, crowd: Crowd, note: Any
) -> None:
    handing = Handing(others, kind)

    async def program() -> None:
        async with app.running():
            for number in range(3):
                await asyncio.to_thread(note.enqueue, number)
                await asyncio.sleep(0.1)
            await ran(crowd, 3)

    asyncio.run(program())
    # Its loop may be kept by others.
    assert handing.messages == []


# --- the file

LANE = LaneName("default", "note")


def want(tasks: int = 1, **more: Any) -> ClaimRequest:
    names = ["note", *(f"task number {number}" for number in range(1, tasks))]
    return ClaimRequest(7, 15_000, dict.fromkeys(names, "async"), {"async": 1}, **more)


def job(number: int = 5) -> Claimed:
    return Claimed(
        *(JobId(number), 1, 1, "note", "{}", 0, 0, 0, 0, None, None, None, None, None),
        queue="default",
    )


@pytest.fixture
def offer(tmp_path: Path) -> Offer:
    return Offer(tmp_path / "7.offer")


@pytest.fixture
def seen(offer: Offer, tmp_path: Path) -> ForeignOffer:
    return ForeignOffer(str(tmp_path / "7.offer"))


def test_an_offer_stands_until_it_is_taken_or_withdrawn(offer: Offer, seen: ForeignOffer) -> None:
    assert seen.offered(LANE) is None
    offer.show(want())
    assert seen.offered(LANE) is not None
    seen.take(1, job())
    assert seen.offered(LANE) is None
    offer.show(want())
    assert seen.offered(LANE) is not None
    offer.withdraw()
    assert seen.offered(LANE) is None


def test_what_was_taken_and_not_handed_over_is_owed_until_it_was_looked_for(
    offer: Offer, seen: ForeignOffer
) -> None:
    offer.show(want())
    assert seen.offered(LANE) is not None
    message = seen.take(1, job(5))
    offer.withdraw()
    assert offer.owed() == {1: 5}
    offer.answer([1])

    assert offer.receive(message) is None
    assert offer.owed() == {}


def test_what_was_taken_as_it_was_withdrawn_is_owed_once_it_is_heard_of(
    offer: Offer, seen: ForeignOffer
) -> None:
    offer.show(want())
    assert seen.offered(LANE) is not None
    offer.withdraw()
    assert offer.owed() == {}
    message = seen.take(1, job(5))
    offer.show(want())

    assert offer.receive(message) is None
    assert offer.owed() == {1: 5}


def test_what_was_taken_is_owed_until_it_was_looked_for_however_many_follow(
    offer: Offer, seen: ForeignOffer
) -> None:
    for number in (1, 2, 3):
        offer.show(want())
        assert seen.offered(LANE) is not None
        seen.take(number, job(10 * number))
        offer.withdraw()

    assert offer.owed() == {1: 10, 2: 20, 3: 30}


def test_limits_that_are_set_later_are_heeded(offer: Offer, seen: ForeignOffer) -> None:
    limits: dict[str, int] = {}
    offer.show(want(queue_limits=limits))
    assert seen.offered(LANE) is not None
    offer.withdraw()
    limits["default"] = 1
    offer.show(want(queue_limits=limits))

    assert seen.offered(LANE) is None


def test_what_cannot_be_written_takes_nothing(offer: Offer, seen: ForeignOffer) -> None:
    offer.show(want())
    odd: Any = msgspec.structs.replace(job(), key=object())

    with pytest.raises(TypeError):
        seen.take(1, odd)

    assert seen.offered(LANE) is not None


def test_new_terms_are_read(offer: Offer, seen: ForeignOffer) -> None:
    other = LaneName("default", "task number 1")
    offer.show(want())
    assert seen.offered(other) is None
    offer.withdraw()
    offer.show(want(2))
    assert seen.offered(other) is not None


def test_terms_that_were_written_in_part_are_none(
    offer: Offer, seen: ForeignOffer, tmp_path: Path
) -> None:
    offer.show(want())
    with (tmp_path / "7.offer").open("r+b") as file:
        # As if they were those of another checksum.
        file.seek(40)
        file.write(b"?")

    assert seen.offered(LANE) is None


def test_more_tasks_than_fit_into_the_file_are_not_offered(
    offer: Offer, seen: ForeignOffer
) -> None:
    offer.show(want(SIZE // 10))
    assert seen.offered(LANE) is None


@pytest.mark.parametrize("how", ["taken down by a survivor", "not reached", "all files gone"])
def test_a_dead_worker_is_given_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    its, ours = Doorbell((1, 2)), Doorbell((1, 2))
    engine: Any = None
    board = OfferBoard(engine, ours)
    listener, offer = its.listen(7), OfferBoard(engine, its).own(7)
    assert listener is not None
    assert offer is not None
    offer.show(want())
    assert board.offered(LANE) is not None

    if how == "taken down by a survivor":
        survivor = Doorbell((1, 2))
        OfferBoard(engine, survivor)
        survivor.take_down(7)
        assert list(tmp_path.rglob("7*")) == []
    elif how == "not reached":
        listener.close()
    else:
        shutil.rmtree(tmp_path)
        ours._look_at = 0.0  # noqa: SLF001 - it looks anew

    assert board.offered(LANE) is None
    listener.close()
    ours.close()
