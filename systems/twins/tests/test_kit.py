"""What all twins share, shown on the receiver of webhooks: faults, books, control, clocks, TLS."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import httpx2
import pytest

from duework import App
from duework.testing import Harness
from systems.twins import Twins, twins
from systems.twins.kit.clock import as_now, boot, scaled, wall
from systems.twins.kit.faults import BadPlan, Plan
from systems.twins.kit.limits import Window, whole_seconds
from systems.twins.tests.conftest import NOON, Standing

TWINS = ("hooks",)


def plan(t: Twins, http: httpx2.Client, *rules: dict[str, object]) -> str:
    reply = http.post(f"{t.hooks.url}/_twin/faults", json=list(rules))
    assert reply.status_code == 200, reply.text
    return f"{t.hooks.url}/hook/orders"


def delivered(t: Twins, http: httpx2.Client) -> int:
    return len(http.get(f"{t.hooks.url}/_twin/ledger").json())


def test_a_status_is_answered_instead_of_the_effect(t: Twins, http: httpx2.Client) -> None:
    rule = {"route": "hook", "calls": "2", "do": "status", "status": 503}
    url = plan(t, http, {**rule, "headers": {"retry-after": "9"}})

    replies = [http.post(url) for _ in range(3)]

    assert [reply.status_code for reply in replies] == [200, 503, 200]
    assert replies[1].headers["retry-after"] == "9"
    assert delivered(t, http) == 2


def test_a_status_may_come_after_the_effect_with_a_body_of_its_own(
    t: Twins, http: httpx2.Client
) -> None:
    url = plan(t, http, {"do": "status", "status": 500, "effect": True, "body": "<h1>Oh</h1>"})

    reply = http.post(url)

    assert (reply.status_code, reply.text) == (500, "<h1>Oh</h1>")
    assert delivered(t, http) == 1


def test_a_connection_dropped_before_the_effect_leaves_none(t: Twins, http: httpx2.Client) -> None:
    url = plan(t, http, {"do": "drop_before"})

    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        http.post(url)

    assert delivered(t, http) == 0
    assert t.hooks.log.entries[0].fault == "drop_before"


def test_an_effect_whose_reply_is_dropped_is_in_the_ledger(t: Twins, http: httpx2.Client) -> None:
    url = plan(t, http, {"calls": "1", "do": "drop_after"})

    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        http.post(url)

    assert delivered(t, http) == 1
    assert t.hooks.log.entries[0].status is None


def test_a_reply_may_be_late_slow_broken_or_missing(t: Twins, http: httpx2.Client) -> None:
    url = plan(
        t,
        http,
        {"calls": "1", "do": "delay", "seconds": 5},
        {"calls": "2", "do": "malformed"},
        {"calls": "3", "do": "never"},
        {"calls": "4", "do": "never", "effect": True},
    )

    with pytest.raises(httpx2.ReadTimeout):
        http.post(url, timeout=0.1)
    broken = http.post(url)
    for _ in range(2):
        with pytest.raises(httpx2.ReadTimeout):
            http.post(url, timeout=0.1)

    assert broken.text == '{"ok'
    # The malformed one, and the last.
    assert delivered(t, http) == 2


def test_a_slow_body_arrives_whole_for_whoever_waits(t: Twins, http: httpx2.Client) -> None:
    t.hooks.endpoint("orders", "github", ["s"])
    url = plan(t, http, {"do": "slow_body", "seconds": 0.05})

    reply = http.post(url)

    assert reply.status_code == 401
    assert reply.json() == {"error": "a header is missing"}


def test_calls_are_counted_by_rule_and_the_first_that_hits_wins() -> None:
    found = Plan(["a", "b.c"])
    found.set(
        [
            {"route": "a", "calls": "2..3", "do": "drop_before"},
            {"route": "*", "calls": "3..", "do": "never"},
        ]
    )

    taken = [found.take(route) for route in ("a", "a", "a", "b.c", "a")]

    assert [fault and fault.do for fault in taken] == [
        None,
        "drop_before",
        "drop_before",
        "never",
        "never",
    ]


def test_a_share_of_the_calls_is_the_same_with_the_same_seed() -> None:
    def draw(seed: int) -> list[bool]:
        found = Plan(["a"], seed)
        found.set([{"calls": "10%", "do": "drop_after"}])
        return [found.take("a") is not None for _ in range(1000)]

    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
    assert 60 < sum(draw(7)) < 140


@pytest.mark.parametrize(
    "rules",
    [
        "drop",
        [7],
        [{"do": "explode"}],
        [{"do": "status", "status": 42}],
        [{"do": "delay", "seconds": -1}],
        [{"do": "delay", "seconds": "long"}],
        [{"do": "never", "calls": "0"}],
        [{"do": "never", "calls": "5..2"}],
        [{"do": "never", "calls": "often"}],
        [{"do": "never", "calls": "101%"}],
        [{"do": "never", "route": "nowhere"}],
        [{"do": "never", "wen": 3}],
        [{"do": "drop_after", "effect": False}],
        [{"do": "status", "headers": {"a": 1}}],
    ],
)
def test_a_plan_that_makes_no_sense_changes_nothing(
    t: Twins, http: httpx2.Client, rules: object
) -> None:
    plan(t, http, {"do": "never", "calls": "9"})

    reply = http.post(f"{t.hooks.url}/_twin/faults", json=rules)

    assert reply.status_code == 400
    assert reply.json()["error"]
    assert [rule["calls"] for rule in http.get(f"{t.hooks.url}/_twin/faults").json()] == ["9"]
    with pytest.raises(BadPlan):
        t.hooks.faults.set(rules)


def test_the_control_routes_show_and_forget(t: Twins, http: httpx2.Client) -> None:
    base = t.hooks.url
    http.post(f"{base}/hook/orders", headers={"webhook-id": "m1"})
    http.get(f"{base}/nowhere")

    shown = http.get(f"{base}/_twin").json()
    log = http.get(f"{base}/_twin/log").json()
    counts = http.get(f"{base}/_twin/ledger", params={"by": "id"}).json()
    http.post(f"{base}/_twin/reset")

    assert shown["routes"] == ["challenge", "hook"]
    assert "endpoint" in shown["switches"]
    assert [(e["route"], e["status"]) for e in log["log"]] == [("hook", 200), ("?", 404)]
    assert counts == {"m1": 1}
    assert http.get(f"{base}/_twin/ledger").json() == []
    assert http.get(f"{base}/_twin/log").json()["calls"] == 0


def test_a_switch_is_reached_over_http_and_says_what_it_takes(
    t: Twins, http: httpx2.Client
) -> None:
    base = f"{t.hooks.url}/_twin/switch"

    right = http.post(f"{base}/answer", json={"name": "orders", "answers": [410]})
    wrong = http.post(f"{base}/answer", json={"nome": "orders"})
    missing = http.post(f"{base}/explode")

    assert right.status_code == 200
    assert http.post(f"{t.hooks.url}/hook/orders").status_code == 410
    assert (wrong.status_code, missing.status_code) == (400, 400)
    assert "answers" in wrong.json()["error"]
    assert "endpoint" in missing.json()["error"]


def test_a_reply_is_dated_by_the_twins_clock(t: Twins, http: httpx2.Client) -> None:
    assert http.post(f"{t.hooks.url}/hook/a").headers["date"] == "Sun, 01 Mar 2026 12:00:00 GMT"


def test_a_twin_stands_on_the_harness_clock(tmp_path: Path, http: httpx2.Client) -> None:
    app = App(f"sqlite:///{tmp_path / 'a.db'}")

    with Harness(app, now="2026-03-01T12:00:00+00:00") as h, twins(h.clock, "hooks") as t:
        http.post(f"{t.hooks.url}/hook/a")
        h.advance("31d")
        http.post(f"{t.hooks.url}/hook/a")

    assert [asked.at for asked in t.hooks.log.entries] == [NOON, NOON + 31 * 86_400_000]


def test_twins_on_one_scaled_clock_agree() -> None:
    text = f"60@{NOON}/{boot() - 10_000}"

    one, two = scaled(text), scaled(text)
    before, found, after = one(), two(), one()

    assert before <= found <= after
    assert found >= NOON + 600_000


def test_a_speed_alone_starts_at_the_present() -> None:
    clock = scaled("3600")
    first = clock()
    time.sleep(0.02)

    assert abs(first - wall()) < 600_000
    assert clock() - first >= 3600 * 10


@pytest.mark.parametrize("text", ["", "fast", "0", "60@1", "60@a/b", "-1"])
def test_a_clock_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="DUEWORK_CLOCK"):
        scaled(text)


def test_a_clock_is_anything_that_tells_the_time() -> None:
    assert as_now(lambda: 7)() == 7
    assert as_now(Standing(8))() == 8
    assert abs(as_now(None)() - wall()) < 1000


def test_https_is_served_under_a_test_authority() -> None:
    with twins(None, "hooks", https=["hooks"]) as t:
        assert t.hooks.url.startswith("https://")
        with httpx2.Client(
            verify=ssl.create_default_context(cafile=t.ca), trust_env=False
        ) as trusting:
            assert trusting.post(f"{t.hooks.url}/hook/a").status_code == 200
        with httpx2.Client(trust_env=False) as wary, pytest.raises(httpx2.ConnectError):
            wary.post(f"{t.hooks.url}/hook/a")


def test_a_twin_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="fax"):
        twins(None, "fax")


def test_a_window_starts_with_its_first_call_or_at_a_natural_border() -> None:
    free, aligned = Window(2, 60_000), Window(2, 60_000, aligned=True)
    for window in (free, aligned):
        window.use(90_000)
        window.use(90_000)

    assert free.full(149_999)
    assert not free.full(150_000)
    assert aligned.full(119_999)
    assert not aligned.full(120_000)
    assert (aligned.refuse(), aligned.refuse()) == ("reached", "ignored")
    assert [whole_seconds(each) for each in (0, 0.2, 1.0, 1.01)] == [1, 1, 1, 2]
