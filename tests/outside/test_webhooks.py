from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework import BadSignature, UsageError, webhooks
from duework.testing import Harness

NOW = 1_614_265_330_000
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - the one of the specification
OTHER = "whsec_" + base64.b64encode(b"another secret of 32 bytes, or so").decode()
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
BODY = b'{"test": 2432232314}'
# The answer that the specification's own libraries are tested with.
KNOWN = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def signed(**changes: str) -> dict[str, str]:
    return webhooks.sign(SECRET, ID, BODY, now=NOW) | changes


def test_a_webhook_is_signed_as_the_specification_says() -> None:
    assert webhooks.sign(SECRET, ID, BODY, now=NOW) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": KNOWN,
    }


def test_a_signed_webhook_is_known_by_its_id() -> None:
    assert webhooks.verify(SECRET, signed(), BODY, now=NOW) == ID


def test_names_of_headers_may_be_in_capitals_or_svix() -> None:
    capitals = {name.title(): value for name, value in signed().items()}
    branded = {name.replace("webhook", "svix"): value for name, value in signed().items()}

    assert webhooks.verify(SECRET, capitals, BODY, now=NOW) == ID
    assert webhooks.verify(SECRET, branded, BODY, now=NOW) == ID


@pytest.mark.parametrize("secret", [SECRET, SECRET.removeprefix("whsec_")])
def test_the_prefix_of_a_secret_may_be_left_out(secret: str) -> None:
    assert webhooks.sign(secret, ID, BODY, now=NOW)["webhook-signature"] == KNOWN


def test_while_a_secret_is_replaced_both_are_good() -> None:
    both = webhooks.sign([OTHER, SECRET], ID, BODY, now=NOW)

    assert len(both["webhook-signature"].split(" ")) == 2
    assert webhooks.verify(SECRET, both, BODY, now=NOW) == ID
    assert webhooks.verify(OTHER, both, BODY, now=NOW) == ID
    assert webhooks.verify([OTHER, SECRET], signed(), BODY, now=NOW) == ID


@pytest.mark.parametrize("age", [-300, 300])
def test_a_webhook_may_be_five_minutes_old_or_ahead(age: int) -> None:
    assert webhooks.verify(SECRET, signed(), BODY, now=NOW + age * 1000) == ID


@pytest.mark.parametrize("age", [-301, 301, 86_400])
def test_a_webhook_from_another_time_is_refused(age: int) -> None:
    with pytest.raises(BadSignature, match="signed"):
        webhooks.verify(SECRET, signed(), BODY, now=NOW + age * 1000)


def test_the_tolerance_can_be_chosen() -> None:
    with pytest.raises(BadSignature):
        webhooks.verify(SECRET, signed(), BODY, now=NOW + 11_000, tolerance="10s")


@pytest.mark.parametrize(
    "changes",
    [
        {"webhook-signature": KNOWN[:-2] + "A="},
        {"webhook-signature": KNOWN.replace("v1,", "v2,")},
        {"webhook-signature": KNOWN.replace(",", "")},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "é " * 3},
        {"webhook-signature": "v1," * 2000},
        {"webhook-signature": ""},
        {"webhook-id": ""},
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "hello"},
        {"webhook-timestamp": "1614265331"},
        {"webhook-timestamp": "-1614265330"},
        {"webhook-timestamp": "１６１４２６５３３０"},  # noqa: RUF001 - digits, but not those
        {"webhook-timestamp": "9" * 400},
    ],
)
def test_headers_that_do_not_fit_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(BadSignature):
        webhooks.verify(SECRET, signed(**changes), BODY, now=NOW)


@given(st.integers(0, len(BODY) * 8 - 1))
def test_any_changed_bit_of_the_body_is_seen(bit: int) -> None:
    changed = bytearray(BODY)
    changed[bit // 8] ^= 1 << bit % 8

    with pytest.raises(BadSignature):
        webhooks.verify(SECRET, signed(), bytes(changed), now=NOW)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_!!!!", "whsec_é"])
def test_a_secret_that_is_none_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(UsageError, match="new_secret") as raised:
        webhooks.sign(secret, ID, BODY, now=NOW)

    assert secret == "" or secret.removeprefix("whsec_") == "" or secret not in str(raised.value)


def test_no_secret_at_all_verifies_nothing() -> None:
    with pytest.raises(UsageError):
        webhooks.verify([], signed(), BODY, now=NOW)


@pytest.mark.parametrize("id_", ["", "a b", "a.b", "a\nb", "é"])
def test_an_id_that_could_be_read_in_two_ways_is_refused(id_: str) -> None:
    with pytest.raises(UsageError, match="id"):
        webhooks.sign(SECRET, id_, BODY, now=NOW)


def test_a_new_secret_is_good_and_its_own() -> None:
    first, second = webhooks.new_secret(), webhooks.new_secret()

    assert first != second
    assert webhooks.verify(first, webhooks.sign(first, ID, BODY, now=NOW), BODY, now=NOW) == ID


def test_the_plain_header_is_the_one_of_the_article() -> None:
    headers = webhooks.sign_notify("recipient-secret", '{"id":"n1"}')

    assert headers == {
        "X-Notify-Signature": "sha256="
        "3fc661c9772c1170a587da10fdb7417eb89c82ff7e1acadabd2fd0dcd3f3f40b"
    }
    webhooks.verify_notify(
        ["old", "recipient-secret"], headers["X-Notify-Signature"], '{"id":"n1"}'
    )
    with pytest.raises(BadSignature):
        webhooks.verify_notify("recipient-secret", headers["X-Notify-Signature"], '{"id":"n2"}')
    with pytest.raises(UsageError):
        webhooks.sign_notify("", b"x")


def test_times_are_those_of_the_app(harness: Harness) -> None:
    headers = webhooks.sign(SECRET, ID, BODY, now=harness.app.now())
    harness.advance("4m")
    assert webhooks.verify(SECRET, headers, BODY, now=harness.app.now()) == ID
    harness.advance("2m")
    with pytest.raises(BadSignature):
        webhooks.verify(SECRET, headers, BODY, now=harness.app.now())
