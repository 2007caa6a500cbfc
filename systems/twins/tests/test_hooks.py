"""The receiver of webhooks: signatures, counts by id, and answers of every kind."""

from __future__ import annotations

import hashlib
import hmac

import httpx2
import pytest

from systems.twins import Twins
from systems.twins.hooks import standard_signature
from systems.twins.tests.conftest import NOON, Standing

TWINS = ("hooks",)
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BODY = b'{"type":"demo.fired"}'
STAMP = str(NOON // 1000)


def signed(secret: str = SECRET, stamp: str = STAMP, brand: str = "webhook") -> dict[str, str]:
    return {
        f"{brand}-id": "msg_demo1",
        f"{brand}-timestamp": stamp,
        f"{brand}-signature": standard_signature(secret, "msg_demo1", stamp, BODY),
    }


def test_the_known_answers_of_standard_webhooks_are_ours() -> None:
    assert standard_signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    ) == ("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    assert standard_signature(SECRET, "msg_demo1", "1700000000", BODY) == (
        "v1,IH/zs6YytChCezpqWmos5RerqL+nVpZ3r6aE1tqhMmA="
    )


def test_a_delivery_is_counted_by_its_id_however_often_it_comes(
    t: Twins, http: httpx2.Client
) -> None:
    url = t.hooks.endpoint("orders", "standard", [SECRET])

    statuses = [http.post(url, content=BODY, headers=signed()).status_code for _ in range(2)]

    assert statuses == [200, 200]
    assert t.hooks.ledger.counts("id", "delivered") == {"msg_demo1": 2}


@pytest.mark.parametrize(
    ("headers", "right"),
    [
        (signed(), True),
        (signed(brand="svix"), True),
        (signed(SECRET.removeprefix("whsec_")), True),
        (signed(SECRET.rstrip("=")), True),
        ({**signed(), "webhook-signature": "v1,AAAA v2,x " + signed()["webhook-signature"]}, True),
        ({**signed(), "webhook-signature": signed()["webhook-signature"][:-2] + "A="}, False),
        ({**signed(), "webhook-signature": "v2" + signed()["webhook-signature"][2:]}, False),
        ({**signed(), "webhook-signature": signed()["webhook-signature"].replace(",", "")}, False),
        (signed(stamp=str(NOON // 1000 - 300)), True),
        (signed(stamp=str(NOON // 1000 + 300)), True),
        (signed(stamp=str(NOON // 1000 - 301)), False),
        (signed(stamp=str(NOON // 1000 + 301)), False),
        (signed(stamp="hello"), False),
        ({k: v for k, v in signed().items() if k != "webhook-id"}, False),
        ({k: v for k, v in signed().items() if k != "webhook-timestamp"}, False),
        ({k: v for k, v in signed().items() if k != "webhook-signature"}, False),
        ({}, False),
    ],
)
def test_a_signature_is_checked_to_the_letter(
    t: Twins, http: httpx2.Client, headers: dict[str, str], right: bool
) -> None:
    url = t.hooks.endpoint("orders", "standard", [SECRET])

    reply = http.post(url, content=BODY, headers=headers)

    assert reply.status_code == (200 if right else 401)
    assert len(t.hooks.ledger.of("delivered")) == right
    assert len(t.hooks.ledger.of("forged")) == (not right)


def test_during_a_rotation_both_secrets_are_good(t: Twins, http: httpx2.Client) -> None:
    other = "whsec_" + "QUJD" * 8
    url = t.hooks.endpoint("orders", "standard", [SECRET, other])

    replies = [http.post(url, content=BODY, headers=signed(key)) for key in (SECRET, other)]

    assert [reply.status_code for reply in replies] == [200, 200]


@pytest.mark.parametrize("secrets", [[], [""], ["whsec_"]])
def test_an_endpoint_without_a_secret_cannot_check(t: Twins, secrets: list[str]) -> None:
    with pytest.raises(ValueError, match="secret"):
        t.hooks.endpoint("orders", "standard", secrets)

    assert t.hooks.endpoints == {}


@pytest.mark.parametrize(
    ("scheme", "secret", "body", "headers"),
    [
        (
            "github",
            "It's a Secret to Everybody",
            b"Hello, World!",
            {
                "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a"
                "37570b6d7586c22c46f4379c8b043e17"
            },
        ),
        (
            "notify",
            "recipient-secret",
            b'{"id":"n1"}',
            {
                "x-notify-signature": "sha256=3fc661c9772c1170a587da10fdb7417e"
                "b89c82ff7e1acadabd2fd0dcd3f3f40b"
            },
        ),
        (
            "stripe",
            "whsec_demo",
            b'{"id":"evt_demo"}',
            {
                "stripe-signature": "t=1700000000,v1=c828f5f65861ddf3a161dafc8cb34fa2"
                "36c171ee70740c3a5b612cf820a03857"
            },
        ),
    ],
)
def test_the_other_conventions_are_known_by_their_vectors(
    t: Twins,
    http: httpx2.Client,
    clock: Standing,
    scheme: str,
    secret: str,
    body: bytes,
    headers: dict[str, str],
) -> None:
    if scheme == "stripe":
        clock.at = 1_700_000_000_000
    url = t.hooks.endpoint("orders", scheme, [secret])

    good = http.post(url, content=body, headers=headers)
    bad = http.post(url, content=body + b" ", headers=headers)

    assert (good.status_code, bad.status_code) == (200, 401)


def test_a_signature_that_is_too_old_for_stripe_is_refused(t: Twins, http: httpx2.Client) -> None:
    url = t.hooks.endpoint("orders", "stripe", ["whsec_demo"])
    stamp = str(NOON // 1000 - 301)
    value = hmac.digest(b"whsec_demo", stamp.encode() + b"." + BODY, hashlib.sha256).hex()

    reply = http.post(url, content=BODY, headers={"stripe-signature": f"t={stamp},v1={value}"})

    assert reply.status_code == 401


def test_answers_are_given_in_turn_and_the_last_one_again(t: Twins, http: httpx2.Client) -> None:
    t.hooks.answer("orders", [503, 410, 302, 200], headers={"retry-after": "7"})

    url = f"{t.hooks.url}/hook/orders"
    replies = [http.post(url, content=b"{}") for _ in range(5)]

    assert [reply.status_code for reply in replies] == [503, 410, 302, 200, 200]
    assert replies[0].headers["retry-after"] == "7"
    assert len(t.hooks.ledger.of("refused")) == 3
    assert len(t.hooks.ledger.of("delivered")) == 2


def test_an_endpoint_may_say_nothing_or_hang_up(t: Twins, http: httpx2.Client) -> None:
    url = f"{t.hooks.url}/hook/orders"
    t.hooks.answer("orders", 0)
    with pytest.raises(httpx2.ReadTimeout):
        http.post(url, content=b"{}", timeout=0.2)
    t.hooks.answer("orders", -1)
    with pytest.raises(httpx2.RemoteProtocolError):
        http.post(url, content=b"{}")

    assert [asked.status for asked in t.hooks.log.entries] == [None, None]
    assert len(t.hooks.ledger.of("refused")) == 2
