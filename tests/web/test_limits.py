"""Whoever asks too often is told when to come back, and nobody else notices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from duework import App, UsageError
from duework.web.limits.buckets import MOST_KEYS, Buckets
from duework.web.limits.clients import client_of
from duework.web.limits.rates import RateLimits
from duework.web.limits.settings import WebSettings, load
from duework.web.tokens import Tokens
from tests.web.club import with_club
from tests.web.conftest import OURS, Browser, Site, task
from tests.web.test_server import served

WRONG = "dw_" + "x" * 43


# --- the buckets


def test_a_bucket_gives_its_number_and_then_one_at_a_time() -> None:
    buckets = Buckets(4)

    assert [buckets.take("ada", 1_000) for _ in range(5)] == [0, 0, 0, 0, 15_000]
    assert buckets.take("bob", 1_000) == 0, "everybody has a bucket of their own"
    assert buckets.take("ada", 15_999) == 1
    assert [buckets.take("ada", 16_000) for _ in range(2)] == [0, 15_000]
    assert [buckets.take("ada", 200_000) for _ in range(5)] == [0, 0, 0, 0, 15_000]


def test_being_refused_does_not_make_it_longer() -> None:
    buckets = Buckets(1)
    buckets.take("ada", 0)

    assert [buckets.take("ada", now) for now in (0, 30_000, 59_999, 60_000)] == [
        60_000,
        30_000,
        1,
        0,
    ]


def test_a_clock_that_goes_back_locks_nobody_out_for_longer_than_a_minute() -> None:
    buckets = Buckets(1)
    buckets.take("ada", 10_000_000)

    assert buckets.take("ada", 0) == 60_000


def test_the_keys_are_bounded_and_the_least_used_goes_first() -> None:
    buckets = Buckets(1, most_keys=100)
    for number in range(1_000):
        buckets.take(str(number), number)

    assert len(buckets) == 100
    assert buckets.take("999", 1_000) > 0
    assert buckets.take("0", 1_000) == 0


def test_no_limit_keeps_nothing() -> None:
    buckets = Buckets(0)

    assert not any(buckets.take("ada", 0) for _ in range(10_000))
    assert len(buckets) == 0


# --- whose request it is


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("192.0.2.7", [], "192.0.2.7"),
        # Whoever is not trusted names nobody.
        ("192.0.2.7", ["198.51.100.1"], "192.0.2.7"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        # What a client writes itself stands before what the proxy adds.
        ("10.0.0.1", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.9", "198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, nonsense, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["[2001:db8:1:2:3::4]:80"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", [], "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", [], "192.0.2.7"),
        ("testclient", ["198.51.100.1"], "testclient"),
    ],
)
def test_the_client_is_whom_the_last_trusted_proxy_saw(
    peer: str, forwarded: list[str], found: str
) -> None:
    trusted = WebSettings(trusted_proxies=("10.0.0.0/8",)).networks()
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]

    assert client_of({"client": (peer, 5), "headers": headers}, trusted) == found


# --- through the doors


class Clock:
    """Milliseconds that a test moves."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(RateLimits.__init__, "__defaults__", (made, MOST_KEYS))
    return made


def browser(site: Site, **limits: Any) -> Browser:
    return site.browser(settings=WebSettings(**limits))


def check_refused(answer: Any, seconds: int) -> None:
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == str(seconds)
    assert "content-security-policy" in answer.headers


def test_attempts_to_sign_in_are_counted_whatever_is_tried(site: Site, clock: Clock) -> None:
    somebody, good = browser(site, sign_ins=3), site.token("read")

    def attempt(secret: str) -> Any:
        return somebody.post("/login", data={"token": secret}, headers=OURS)

    assert [attempt(f"{WRONG}{number}").status_code for number in range(3)] == [401] * 3
    refused = attempt(good)
    check_refused(refused, 20)
    assert "try again in 20 seconds" in refused.text
    assert somebody.get("/login").status_code == 200, "looking is no attempt"
    clock.now += 20_000
    assert attempt(good).status_code == 303


def test_people_who_sign_in_are_counted_too(site: Site, clock: Clock) -> None:
    part = with_club(site.app)
    somebody = browser(site, sign_ins=2)

    def ask(path: str, **data: str) -> int:
        return int(somebody.post(path, data=data, headers=OURS).status_code)

    assert ask("/club/sign-in", email="ada@club.test") == 200
    assert ask("/club/enter", code="nonsense") == 401
    mails = len(part.__dict__["mails"])
    assert ask("/club/sign-in", email="bob@club.test") == 429
    assert ask("/club/enter", code="nonsense") == 429
    assert len(part.__dict__["mails"]) == mails, "nothing was sent"
    clock.now += 30_000
    assert ask("/club/sign-in", email="bob@club.test") == 200


def test_below_a_prefix_the_same_is_counted(site: Site, clock: Clock) -> None:
    somebody = site.browser(prefix="/ops", settings=WebSettings(sign_ins=1))

    def attempt() -> int:
        return int(somebody.post("/ops/login", data={"token": WRONG}, headers=OURS).status_code)

    assert [attempt(), attempt()] == [401, 429]


def test_an_address_that_guesses_tokens_is_refused_and_a_token_that_came_in_is_not(
    site: Site, clock: Clock
) -> None:
    program, good, other = browser(site, failures=3), site.token("read"), site.token("read")

    def ask(token: str, path: str = "/jobs") -> Any:
        return program.get(path, headers={"authorization": f"Bearer {token}"})

    assert ask(good).status_code == 200
    assert [ask(f"{WRONG}{number}").status_code for number in range(3)] == [401] * 3
    refused = ask(other)
    check_refused(refused, 20)
    assert refused.json()["error"]["code"] == "too_many_requests"
    assert ask(good).status_code == 200, "it is known"
    assert program.get("/login").status_code == 200, "and a browser guesses nothing"
    clock.now += 20_000
    assert ask(other).status_code == 200


def test_an_open_page_vouches_for_no_token(site: Site, clock: Clock) -> None:
    program = browser(site, failures=2)

    guesses = [{"authorization": f"Bearer {WRONG}{number}"} for number in range(4)]
    assert {program.get("/health", headers=each).status_code for each in guesses} == {200}
    statuses = [program.get("/jobs", headers=each).status_code for each in guesses]
    assert statuses == [401, 401, 429, 429]


def test_a_token_that_was_revoked_is_no_longer_known(site: Site, clock: Clock) -> None:
    program, tokens = browser(site, failures=1), Tokens(site.app)
    secret = tokens.add("gone", "read")
    headers = {"authorization": f"Bearer {secret}"}

    assert program.get("/jobs", headers=headers).status_code == 200
    tokens.revoke("gone")
    statuses = [program.get("/jobs", headers=headers).status_code for _ in range(3)]
    assert statuses == [401, 429, 429]


def test_one_token_asks_so_often_and_another_one_goes_on(site: Site, clock: Clock) -> None:
    program, one, other = browser(site, requests=3), site.token("read"), site.token("read")

    def ask(token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        return int(program.get("/metrics", headers=headers).status_code)

    assert [ask(one) for _ in range(4)] == [200, 200, 200, 429]
    assert ask(other) == 200


def test_routes_of_parts_are_counted_by_address(site: Site, clock: Clock) -> None:
    with_club(site.app)
    program = browser(site, requests=2)

    statuses = [program.post("/api/orders", json={}).status_code for _ in range(3)]
    assert statuses[:2] == [401, 401]
    assert statuses[2] == 429


def test_actions_are_counted_by_token_over_all_its_sessions(site: Site, clock: Clock) -> None:
    page, secret = browser(site, actions=2), site.token("operate")
    page.sign_in(secret)
    job = task(site.app, "greet").enqueue("ada")

    assert page.submit("/queues/pause", queue="default").status_code == 303
    assert page.submit("/queues/resume", queue="default").status_code == 303
    check_refused(page.submit("/jobs/cancel", id=job.id, sure="yes"), 30)
    assert site.app.job(job.id).state == "open", "nothing was done"
    page.cookies.clear()
    page.sign_in(secret)
    check_refused(page.submit("/queues/pause", queue="default"), 30)
    page.cookies.clear()
    page.sign_in(site.token("operate"))
    assert page.submit("/queues/pause", queue="default").status_code == 303
    clock.now += 30_000


def test_a_page_that_opens_too_many_sockets_is_closed(site: Site, clock: Clock) -> None:
    from starlette.websockets import WebSocketDisconnect

    viewer = browser(site, requests=1)
    viewer.get("/login")

    with (
        pytest.raises(WebSocketDisconnect) as ended,
        viewer.websocket_connect("ws://localhost/live?page=/"),
    ):
        pass
    assert ended.value.code == 1013


# --- as it is started


def test_a_server_counts_by_the_client_that_its_trusted_proxy_names(
    url: str, tmp_path: Path
) -> None:
    App(url).admin.migrate(create=True)
    chosen = {"DUEWORK_WEB_SIGN_INS": "2", "DUEWORK_WEB_TRUSTED_PROXIES": '["127.0.0.1"]'}

    with served(url, tmp_path, **chosen) as (link, _):
        base = link.partition("/login")[0]
        with httpx2.Client(base_url=base) as client:

            def attempt(address: str) -> Any:
                headers = {"origin": base, "x-forwarded-for": f"203.0.113.9, {address}"}
                return client.post("/login", data={"token": WRONG}, headers=headers)

            statuses = [attempt("198.51.100.1").status_code for _ in range(3)]
            assert statuses == [401, 401, 429]
            assert 1 <= int(attempt("198.51.100.1").headers["retry-after"]) <= 30
            assert attempt("198.51.100.2").status_code == 401, "another client"


def test_a_server_without_trusted_proxies_believes_nobody(url: str, tmp_path: Path) -> None:
    App(url).admin.migrate(create=True)

    with served(url, tmp_path, DUEWORK_WEB_SIGN_INS="2") as (link, _):
        base = link.partition("/login")[0]
        with httpx2.Client(base_url=base) as client:
            statuses = [
                client.post(
                    "/login",
                    data={"token": WRONG},
                    headers={"origin": base, "x-forwarded-for": f"198.51.100.{number}"},
                ).status_code
                for number in range(3)
            ]
            assert statuses == [401, 401, 429]


def test_settings_that_are_none_are_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="trusted_proxies takes addresses"):
        WebSettings(trusted_proxies=("proxy.example",)).networks()
    monkeypatch.setenv("DUEWORK_WEB_SIGN_INS", "-1")
    with pytest.raises(UsageError, match="sign_ins"):
        load()
