"""`duework.client` against a real server: typed answers, and the errors that Python itself would raise."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from duework import (
    App,
    Conflict,
    InvalidArguments,
    NotFound,
    TaskNotFound,
    UsageError,
    WaitTimeout,
)
from duework.client import ApiClient, ApiError, KeyTaken
from duework.errors import Unsent
from duework.web.tokens import Tokens
from tests.web.conftest import task, work


@pytest.fixture
def client(app: App, server: str) -> Iterator[ApiClient]:
    with ApiClient(server, Tokens(app).add("program", "operate"), timeout="30s") as made:
        yield made


def test_a_job_is_made_waited_for_and_read(app: App, client: ApiClient) -> None:
    made = client.enqueue("greet", ["ada"], key="order:7")
    again = client.enqueue("greet", ["ada"], key="order:7")
    thread = threading.Thread(target=work, args=(app,))
    thread.start()
    found = client.wait(made.id, timeout="60s")
    thread.join()

    assert (again.id, again.existed) == (made.id, True)
    assert (found.phase, found.result) == ("done", "hello ada")
    assert client.why(made.id).kind == "done"


def test_refusals_are_the_errors_of_python(app: App, client: ApiClient) -> None:
    client.enqueue("greet", ["ada"], key="k")

    with pytest.raises(KeyTaken) as taken:
        client.enqueue("greet", ["bob"], key="k")
    with pytest.raises(TaskNotFound):
        client.enqueue("nobody")
    with pytest.raises(InvalidArguments):
        client.enqueue("add", {"a": 1, "b": "2"})
    with pytest.raises(NotFound):
        client.job(7)
    with pytest.raises(NotFound):
        client.job("../tasks")
    with pytest.raises(UsageError):
        client.enqueue("greet", ["ada"], delay="1h", at="2030-01-01T00:00:00+00:00")
    with pytest.raises(ApiError) as odd:
        client.enqueue("greet", ["ada"], priority=10)

    assert isinstance(taken.value, Conflict)
    assert odd.value.problem is not None
    assert odd.value.problem.errors[0].path == "priority"
    assert len(app.jobs()) == 1


def test_lists_are_read_page_by_page(app: App, client: ApiClient) -> None:
    made = [job.id for job in task(app, "greet").enqueue_many([(f"{n}",) for n in range(5)])]

    found = [int(job.id) for job in client.jobs(task="greet", limit=2)]

    assert found == made[::-1]
    assert list(client.jobs(phase="failed")) == []


def test_shapes_have_verbs_of_their_own(app: App, client: ApiClient) -> None:
    batch = client.start_batch("greet", ["ada", "bob"], name="crowd", key="k")
    chain = client.start_chain("pull", [1])
    message = client.submit("post", "good", key="m")
    app.schedule(task(app, "greet"), args=("ada",), key="a/b", every="1h")

    assert client.batch(batch.id).progress.waiting == 2
    assert [each.name for each in client.batches(name="crowd")] == ["crowd"]
    assert client.cancel_batch(batch.id, "enough") == 2
    assert client.chain(chain.id).state == "active"
    assert client.message(message.id).state == "queued"
    assert client.schedule("a/b").key == "a/b"
    assert [each.key for each in client.schedules()] == ["a/b"]
    assert client.outboxes()[0].counts["queued"] == 1
    assert client.pause("mail").paused
    assert not client.resume("mail").paused
    assert "greet" in {each.name for each in client.tasks()}
    assert client.overview().now
    assert client.doctor().checks
    assert client.paces()


def test_a_job_is_cancelled_and_opened_again(client: ApiClient) -> None:
    made = client.enqueue("greet", ["ada"], delay="1h")

    with pytest.raises(WaitTimeout):
        client.wait(made.id, timeout="50ms")
    assert client.cancel(made.id, "no").outcome == "cancelled"
    assert client.retry(made.id).outcome == "revived"
    assert client.attempts(made.id) == []


def test_the_same_for_async_code(client: ApiClient) -> None:
    async def both() -> tuple[str, str]:
        made = await client.aenqueue("greet", ["ada"])
        return made.id, (await client.ajob(made.id)).id

    one, other = asyncio.run(both())

    assert one == other


def test_a_token_that_is_none_and_a_server_that_is_not_there(server: str) -> None:
    with ApiClient(server, "dw_nobody") as stranger, pytest.raises(ApiError) as refused:
        stranger.overview()
    with socket.create_server(("127.0.0.1", 0)) as closing:
        gone = f"http://127.0.0.1:{closing.getsockname()[1]}"
    with ApiClient(gone, "dw_nobody") as lost, pytest.raises(Unsent):
        lost.enqueue("greet", ["ada"])

    assert refused.value.problem is not None
    assert refused.value.problem.code == "unauthorized"
    assert "dw_nobody" not in str(refused.value)
