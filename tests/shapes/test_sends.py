"""`Send`: what a channel's function may know of its send, and rows that commit with its outcome."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from duework import (
    App,
    Cancel,
    Channel,
    Fail,
    Part,
    Retry,
    Run,
    Send,
    Snooze,
    Throttled,
    UsageError,
)
from duework.testing import Harness


@pytest.fixture
def h(harness: Harness) -> Harness:
    with harness.app.transaction() as tx:
        tx.write("create table endpoint (url text primary key, disabled text)")
        tx.write("insert into endpoint (url) values ('a')")
    return harness


def disabled(h: Harness) -> str | None:
    why: str | None = h.app.read("select disabled from endpoint where url = 'a'")[0].disabled
    return why


DISABLE = "update endpoint set disabled = :why where url = :url"


def declare(h: Harness, ending: Any, *, raised: bool = True, **more: Any) -> Any:
    """A webhook that disables its endpoint and then ends as it is told."""

    async def post(to: Send, url: str) -> Any:
        to.write(DISABLE, url=url, why="gone")
        if isinstance(ending, BaseException) and raised:
            raise ending
        return ending

    @h.app.delivery(channels={"hook": Channel(post, **more)}, retries=0)
    def notice(url: str) -> dict[str, str]:
        return {"hook": url}

    return notice


def test_a_sender_is_given_its_key_the_time_and_the_arguments_of_its_delivery(h: Harness) -> None:
    seen: list[Any] = []

    def post(to: Send, text: str, number: int) -> None:
        seen.append((to.key, to.attempt, to.now, to.arguments, text, number))
        if to.attempt == 1:
            raise Throttled("1m")

    @h.app.delivery(channels={"hook": Channel(post)})
    def notice(run: Run, user: int, day: date, loud: bool = False) -> dict[str, Any]:
        return {"hook": {"text": "hi", "number": 7}}

    job = notice.enqueue(3, date(2026, 3, 29))
    begun = h.now
    h.advance("1m")

    given = {"user": 3, "day": date(2026, 3, 29), "loud": False}
    key = f"notice:{job.id}:hook"
    assert seen == [
        (key, 1, begun, given, "hi", 7),
        (key, 2, begun + 60_000, given, "hi", 7),
    ]
    assert job.refresh().result["sent"] == ["hook"]


@pytest.mark.parametrize("raised", [True, False])
@pytest.mark.parametrize("ending", [Fail("410"), Cancel("410")])
def test_what_a_sender_writes_commits_with_a_failure_that_it_states(
    h: Harness, ending: BaseException, raised: bool
) -> None:
    notice = declare(h, ending, raised=raised)

    job = notice.enqueue("a")
    h.drain()

    assert disabled(h) == "gone"
    [channel] = notice.channels(job)
    assert (channel.state, channel.given_up, channel.error) == ("failed", True, "410")
    assert (job.refresh().state, job.refresh().error) == ("failed", "hook: 410")


def test_what_a_sender_writes_commits_with_what_was_sent(h: Harness) -> None:
    notice = declare(h, None)

    job = notice.enqueue("a")
    h.drain()

    assert disabled(h) == "gone"
    assert job.refresh().state == "done"


@pytest.mark.parametrize("ending", [ValueError("500"), Retry("1m", "500"), TimeoutError()])
def test_an_ordinary_error_discards_what_the_sender_wrote(
    h: Harness, ending: BaseException
) -> None:
    notice = declare(h, ending)

    job = notice.enqueue("a")
    h.drain()

    assert disabled(h) is None
    assert notice.channels(job)[0].state in {"failed", "unsure"}


@pytest.mark.parametrize("ending", [Snooze("1h"), Throttled("1h")])
def test_a_send_that_is_put_off_discards_what_the_sender_wrote(
    h: Harness, ending: BaseException
) -> None:
    notice = declare(h, ending)

    job = notice.enqueue("a")
    h.drain()

    assert disabled(h) is None
    assert notice.channels(job)[0].state == "sending"


@pytest.mark.parametrize(
    ("ending", "state", "says"), [(None, "sent", "it was sent"), (Fail("410"), "failed", "410")]
)
def test_a_write_that_fails_takes_back_the_others_and_not_the_outcome(
    h: Harness, ending: BaseException | None, state: str, says: str
) -> None:
    def post(to: Send, url: str) -> None:
        to.write(DISABLE, url=url, why="gone")
        to.write("insert into endpoint (url) values (:url)", url=url)
        if ending is not None:
            raise ending

    @h.app.delivery(channels={"hook": Channel(post)}, retries=0)
    def notice(url: str) -> dict[str, str]:
        return {"hook": url}

    job = notice.enqueue("a")
    h.drain()

    [channel] = notice.channels(job)
    assert channel.state == state
    assert (channel.error or "").startswith(f"{says} (and its own writes failed: ")
    assert disabled(h) is None
    assert job.refresh().state == ("done" if ending is None else "failed")


def test_a_sender_that_takes_a_send_and_no_key_is_not_resent_when_unsure(h: Harness) -> None:
    sends: list[str] = []

    def lost(to: Send, url: str) -> None:
        sends.append(to.key)
        raise TimeoutError

    channels = {"skip": Channel(lost), "resend": Channel(lost, unsure="resend")}

    @h.app.delivery(channels=channels, retries=1, backoff="0s")
    def notice(url: str) -> dict[str, str]:
        return {"skip": url, "resend": url}

    job = notice.enqueue("a")
    h.drain()

    keys = [f"notice:{job.id}:{each}" for each in ("resend", "resend", "skip")]
    assert sorted(sends) == keys
    assert [each.state for each in notice.channels(job)] == ["failed", "unsure"]


def test_a_sender_may_take_a_send_and_a_key(h: Harness) -> None:
    seen: list[Any] = []

    async def post(to: Send, payload: int, key: str) -> None:
        seen.append((to.key == key, payload))

    @h.app.delivery(channels={"hook": Channel(post)})
    def notice() -> dict[str, int]:
        return {"hook": 5}

    notice.enqueue()
    h.drain()

    assert seen == [(True, 5)]


def test_a_send_that_has_ended_takes_no_more_writes(h: Harness) -> None:
    kept: list[Send] = []

    def post(to: Send, url: str) -> None:
        kept.append(to)

    @h.app.delivery(channels={"hook": Channel(post)})
    def notice(url: str) -> dict[str, str]:
        return {"hook": url}

    notice.enqueue("a")
    h.drain()

    with pytest.raises(UsageError, match="has ended"):
        kept[0].write(DISABLE, url="a", why="late")
    assert disabled(h) is None


def test_a_secret_is_opened_for_a_send_and_left_out_of_its_error(
    h: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DUEWORK_KEY_FILE", str(tmp_path / "key"))
    h.app.secrets.seal("hook:7", "swordfish-and-more")

    def post(to: Send, url: str) -> None:
        raise ValueError(f"refused {to.secret('hook:7')} for {to.arguments['url']}")

    @h.app.delivery(channels={"hook": Channel(post)}, retries=0)
    def notice(url: str) -> dict[str, str]:
        return {"hook": url}

    job = notice.enqueue("a")
    h.drain()

    assert "refused *** for a" in (notice.channels(job)[0].error or "")


def test_a_stand_in_is_given_the_send_as_the_function_is() -> None:
    part, seen = Part("shop"), []

    def post(to: Send, url: str) -> None:
        raise AssertionError("the real one")

    def fake(to: Send, url: str) -> None:
        seen.append((to.key, to.arguments, url))

    @part.delivery(channels={"hook": Channel(post)})
    def notice(url: str) -> dict[str, str]:
        return {"hook": url}

    app = App("sqlite:///never-opened.db")
    app.include(part)
    with Harness(app, channels={"shop.notice.hook": fake}) as h:
        job = notice.enqueue("a")
        h.drain()

    assert seen == [(f"shop.notice:{job.id}:hook", {"url": "a"}, "a")]


# --- nothing to send


@pytest.mark.parametrize("chosen", [None, {}])
def test_a_body_that_chooses_nothing_is_done_with_what_it_wrote(h: Harness, chosen: Any) -> None:
    bodies: list[int] = []

    @h.app.delivery(channels={"hook": Channel(print)})
    def notice(run: Run) -> Any:
        bodies.append(run.job.id)
        run.write(DISABLE, url="a", why="chosen")
        return chosen

    job = notice.enqueue()
    h.advance("1h")

    done = job.refresh()
    assert (done.state, done.failures, bodies) == ("done", 0, [job.id])
    assert done.result == {"outcome": "nothing", "sent": [], "failed": {}, "unsure": {}}
    assert notice.channels(job) == []
    assert disabled(h) == "chosen"
