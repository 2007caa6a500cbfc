from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import tracemalloc
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duework import Throttled, UsageError, http
from duework.kernel import outcomes
from duework.testing import Harness
from systems.twins.kit.tls import Authority
from tests.support.loopback import Asked, hanging_up, reply, saying, serving, silence

TOKEN = "ghp_0123456789abcdef"  # noqa: S105 - made up
NOW = 1_767_225_600_000  # Thu, 01 Jan 2026 00:00:00 GMT


def ask(raw: bytes, **options: Any) -> http.Response:
    """One request to a server that answers so."""

    async def once(url: str) -> http.Response:
        async with http.Client(url, **options) as client:
            return await client.get("/x", headers={"authorization": f"Bearer {TOKEN}"})

    with serving(saying(raw)) as server:
        return asyncio.run(once(server.url))


def test_an_answer_has_a_status_headers_and_a_body() -> None:
    found = ask(reply("201 Created", b'{"a": [1]}', X_Limit="7"))

    assert (found.status, found.ok, found.headers["x-limit"]) == (201, True, "7")
    assert (found.json(), found.text) == ({"a": [1]}, '{"a": [1]}')
    assert found.check() is found


def test_a_body_is_read_as_the_type_that_is_wanted() -> None:
    class User(msgspec.Struct):
        name: str

    assert ask(reply(body=b'{"name": "ada"}')).json(User) == User("ada")
    for wrong in (b'{"name": 7}', b"<html>", b"", b"[" * 100_000, b'"\xff"'):
        with pytest.raises(http.HttpError, match="something else"):
            ask(reply(body=wrong)).json(User)


def test_what_is_sent_is_what_was_asked_for() -> None:
    async def send(url: str) -> None:
        async with http.Client(f"{url}/v1/", headers={"X-One": "1", "X-Two": "2"}) as client:
            await client.get("users", params={"page": 2, "q": "a b"})
            await client.post("/users?x=1", json={"é": 1}, params={"y": 2}, headers={"x-two": "3"})
            await client.request("PUT", "", data={"a": "b c"})
            await client.request("DELETE", "?all=1", content=b"raw")
            await client.get(f"{url}/next")
            await client.request("HEAD", "/users")

    with serving(saying(reply())) as server:
        asyncio.run(send(server.url))

    assert [f"{each.method} {each.path}" for each in server.asked] == [
        "GET /v1/users?page=2&q=a+b",
        "POST /v1/users?x=1&y=2",
        "PUT /v1",
        "DELETE /v1?all=1",
        "GET /next",
        "HEAD /v1/users",
    ]
    assert [each.body for each in server.asked[1:4]] == ['{"é":1}'.encode(), b"a=b+c", b"raw"]
    assert (server.asked[0].headers["x-one"], server.asked[1].headers["x-two"]) == ("1", "3")
    assert server.asked[0].headers["host"] == f"127.0.0.1:{server.port}"
    assert server.connections == 1


@pytest.mark.parametrize(
    "url", ["https://evil.example/", "//evil.example", "@evil.example", "http://127.0.0.1:1/"]
)
def test_a_client_sends_its_headers_to_no_other_host(url: str) -> None:
    async def send(base: str) -> None:
        async with http.Client(base, headers={"authorization": TOKEN}) as client:
            await client.get(url)

    with serving(saying(reply())) as server:
        if url.startswith("http"):
            with pytest.raises(UsageError, match="nobody else"):
                asyncio.run(send(server.url))
        else:
            asyncio.run(send(server.url))

    assert [each.headers["host"] for each in server.asked] in ([], [f"127.0.0.1:{server.port}"])


def test_a_client_needs_a_host_or_a_guard() -> None:
    for wrong in ({}, {"base": "https://a.example", "guard": http.Guard()}):
        with pytest.raises(UsageError, match="a guard"):
            http.Client(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pool"):
        http.Client("https://a.example", pool=0)
    for base in ("ftp://a.example", "https://u:p@a.example", "nonsense"):
        with pytest.raises(UsageError, match="no user"):
            asyncio.run(http.Client(base).get("/"))


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        ("429 Too Many Requests", {}, 60_000),
        ("429 Too Many Requests", {"Retry-After": "soon"}, 60_000),
        ("429 Too Many Requests", {"Retry-After": "-5"}, 60_000),
        ("429 Too Many Requests", {"Retry-After": "nan"}, 60_000),
        ("429 Too Many Requests", {"Retry-After": "17"}, 17_000),
        ("429 Too Many Requests", {"Retry-After": "0.65"}, 650),
        ("429 Too Many Requests", {"Retry-After": "0"}, 0),
        ("429 Too Many Requests", {"Retry-After": "9" * 30}, 7 * 86_400_000),
        ("503 Unavailable", {"Retry-After": "30"}, 30_000),
        # By the client's clock, and by the other side's own where it shows one.
        ("503 Unavailable", {"Retry-After": "Thu, 01 Jan 2026 00:01:30 GMT"}, 90_000),
        ("503 Unavailable", {"Retry-After": "Thu, 01 Jan 2015 00:00:00 GMT"}, 0),
        (
            "429 Too Many Requests",
            {"Retry-After": formatdate(1000, usegmt=True), "Date": formatdate(960, usegmt=True)},
            40_000,
        ),
    ],
)
def test_being_told_to_slow_down_is_raised_as_throttled(
    status: str, headers: dict[str, str], wait: int
) -> None:
    raw = reply(status, b"slow down", **{k.replace("-", "_"): v for k, v in headers.items()})

    with pytest.raises(Throttled) as raised:
        ask(raw, now=lambda: NOW)

    assert raised.value.after_ms == wait
    assert isinstance(raised.value, http.TooMany)
    assert raised.value.response.text == "slow down"


def test_any_other_status_is_the_callers_to_judge() -> None:
    for status in ("302 Found", "404 Not Found", "500 Oops", "503 Unavailable"):
        found = ask(reply(status, Location="/elsewhere"))

        with pytest.raises(http.BadStatus, match=status[:3]):
            found.check()


def failing(answer: Any, **options: Any) -> http.HttpError:
    async def once(url: str) -> None:
        async with http.Client(url, **options) as client:
            await client.post("/x", json={})

    with serving(answer) as server, pytest.raises(http.HttpError) as raised:
        asyncio.run(once(server.url))
    assert len(server.asked) == 1
    return raised.value


async def half(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("answer", [hanging_up, half, saying(b"SSH-2.0-x\r\n\r\n")])
def test_after_a_lost_reply_nobody_knows(answer: Any) -> None:
    error = failing(answer)

    assert isinstance(error, http.LOST)
    assert not isinstance(error, http.UNSENT)
    # A channel and an outbox know them, too.
    assert isinstance(error, outcomes.LOST)


def test_a_request_that_is_not_answered_in_time_is_lost() -> None:
    assert isinstance(failing(silence, timeout="100ms"), http.LOST)


async def dripping(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


def test_the_time_is_that_of_the_whole_answer() -> None:
    assert isinstance(failing(dripping, timeout="150ms"), http.LOST)


def test_what_could_not_be_sent_had_no_effect() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        with pytest.raises(http.UNSENT) as raised:
            http.Client(f"http://127.0.0.1:{port}").call("GET", "/")

    assert not isinstance(raised.value, http.LOST)


def test_who_waits_too_long_for_a_connection_has_sent_nothing() -> None:
    async def two(url: str) -> list[Any]:
        async with http.Client(url, pool=1) as client:
            first = asyncio.create_task(client.get("/", timeout="400ms"))
            await asyncio.sleep(0)
            found = await asyncio.gather(
                client.get("/", timeout="100ms"), first, return_exceptions=True
            )
            return list(found)

    with serving(silence) as server:
        second, first = asyncio.run(two(server.url))

    assert isinstance(second, http.Unsent)
    assert isinstance(first, http.LostReply)
    assert len(server.asked) == 1


def test_an_untrusted_certificate_is_an_error_before_anything_is_sent(tmp_path: Path) -> None:
    with (
        serving(saying(reply()), Authority(tmp_path).context()) as server,
        pytest.raises(http.Unsent),
    ):
        http.Client(server.url).call("GET", "/")

    assert server.asked == []


def endless(line: bytes) -> Callable[..., Coroutine[Any, Any, None]]:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n")
        while not writer.transport.is_closing():
            writer.write(b"%x\r\n%s\r\n" % (1000, b"x" * 1000))
            await writer.drain()
            await asyncio.sleep(0)

    return answer


def test_an_answer_is_read_up_to_the_limit_and_no_further() -> None:
    assert len(ask(reply(body=b"x" * 5000), limit=5000).content) == 5000
    for answer in (saying(reply(body=b"x" * 5001)), endless(b"transfer-encoding: chunked")):
        error = failing(answer, limit=5000)

        assert isinstance(error, http.ReplyTooLarge)
        assert isinstance(error, http.LOST)


def test_a_small_answer_that_unpacks_to_a_large_one_is_stopped_too() -> None:
    packed = reply(body=gzip.compress(b"\0" * 50_000_000), Content_Encoding="gzip")

    tracemalloc.start()
    error = failing(saying(packed), limit=1_000_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert isinstance(error, http.ReplyTooLarge)
    assert most < 10_000_000
    assert ask(reply(body=gzip.compress(b"small"), Content_Encoding="gzip")).text == "small"
    for broken in (b"no gzip", gzip.compress(b"cut" * 9999)[:-20]):
        raw = reply(body=broken, Content_Encoding="gzip")
        assert isinstance(failing(saying(raw)), http.LostReply)


def test_a_thread_can_ask_too_and_keeps_its_connection() -> None:
    with serving(saying(reply(body=b"x"))) as server:
        client = http.Client(server.url)
        found = [client.call("GET", "/").text for _ in range(5)]
        client.close()

    assert found == ["x"] * 5
    assert server.connections == 1


def test_a_call_that_would_stop_an_event_loop_is_refused() -> None:
    async def wrong() -> None:
        http.Client("http://127.0.0.1:1").call("GET", "/")

    with pytest.raises(UsageError, match="await"):
        asyncio.run(wrong())


def test_connections_end_with_their_event_loop() -> None:
    async def ask_only(client: http.Client) -> None:
        await client.get("/")

    with serving(saying(reply())) as server:
        client = http.Client(server.url)
        # Warnings are errors here: a connection that is left behind would be one.
        asyncio.run(ask_only(client))
        asyncio.run(ask_only(client))

    assert server.connections == 2


@pytest.mark.parametrize("answer", [hanging_up, silence, saying(reply("500 Oops"))])
def test_no_error_repr_or_log_holds_a_secret(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def once(client: http.Client) -> None:
        reply = await client.post(f"/bot{TOKEN}/send", params={"key": TOKEN}, json={"a": TOKEN})
        reply.check()

    with serving(answer) as server:
        headers = {"authorization": f"Bearer {TOKEN}"}
        client = http.Client(server.url, timeout="200ms", headers=headers)
        with pytest.raises(http.HttpError) as raised:
            asyncio.run(once(client))

    chain: list[BaseException | None] = [raised.value, raised.value.__cause__]
    chain.append(raised.value.__context__)
    for text in [caplog.text, repr(client), *map(repr, chain), *map(str, chain)]:
        assert TOKEN not in text
    for bad in (f"line\n{TOKEN}", f"é{TOKEN}"):
        with pytest.raises(UsageError) as usage:
            http.Client("http://a.example", headers={"x": bad}).call("GET", "/")
        assert TOKEN not in str(usage.value)
    with pytest.raises(http.Refused) as refused:
        http.Client(guard=http.Guard()).call("GET", f"http://[{TOKEN}/")
    assert TOKEN not in str(refused.value)


def test_a_throttled_task_waits_as_long_as_it_was_told(harness: Harness) -> None:
    with serving(saying(reply("429 Too Many Requests", Retry_After="90"))) as server:
        client = http.Client(server.url)

        @harness.app.task
        async def check() -> None:
            await client.get("/")

        job = check.enqueue()
        due = harness.drain()

    assert due == harness.now + 90_000
    assert harness.app.job(job.id).failures == 0
