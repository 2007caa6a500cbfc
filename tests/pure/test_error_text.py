"""Errors as text: bounded, storable, and without secrets, whatever the exception does."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework.kernel.error_text import describe, redact, said

SECRET = "hunter2-Secret_99"  # noqa: S105 - nobody's


@pytest.mark.parametrize(
    "text",
    [
        f"cannot connect to postgresql://ada:{SECRET}@db.example/work",
        f"redis://:{SECRET}@cache:6379/0 refused",
        f"amqp://ada:p@{SECRET}@host/x",
        f"password={SECRET}",
        f"PGPASSWORD={SECRET} psql",
        f"connect(host='x', password='{SECRET}')",
        f"password='two words {SECRET}'",
        f'{{"password": "{SECRET}"}}',
        f"{{'api_key': '{SECRET}'}}",
        f"x-api-key: {SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}==",
        f"https://api.example/?access_token={SECRET}&page=2",
        f"client_secret: {SECRET};",
        f"token {SECRET}",
    ],
)
def test_secrets_are_blotted_out(text: str) -> None:
    found = redact(text)

    assert SECRET not in found
    assert "***" in found


@pytest.mark.parametrize(
    "text",
    [
        "no such table: note",
        "http://host:8080/path?page=2",
        "the key 'user:7' is held by job 12",
        "at 10:30 the secretary left",
        "mailto ada@example.org",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@given(
    st.text(string.ascii_letters + string.digits + "!$%^*()_+-=~", min_size=8, max_size=60),
    st.text(max_size=3000),
    st.text(max_size=50),
)
def test_a_password_in_an_address_is_never_shown(secret: str, before: str, after: str) -> None:
    if secret in before or secret in after:
        return

    assert secret not in redact(f"{before} postgresql://ada:{secret}@db/x {after}")


@given(st.text())
def test_every_text_becomes_storable(text: str) -> None:
    found = redact(text)

    assert "\0" not in found
    assert found.encode().decode() == found


@pytest.mark.parametrize("size", [0, 1499, 1500, 1501, 2499, 2501, 10_000_000])
def test_a_message_is_bounded(size: int) -> None:
    found = said(ValueError("x" * size))

    assert len(found) == min(size, 1500)
    assert found.endswith("…") == (size > 1500)


def test_a_secret_is_not_shown_by_cutting_it_in_two() -> None:
    found = said(ValueError("x " * 740 + f"postgresql://ada:{SECRET}{'y' * 500}@db/x"))

    assert "hunter2" not in found


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Odd(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307 - on purpose


@pytest.mark.parametrize(
    "error", [Hostile(), Odd(), ValueError(), ExceptionGroup("g", [Hostile()])]
)
def test_hostile_exceptions_are_described_all_the_same(error: Exception) -> None:
    assert describe(error).startswith(type(error).__name__)


def test_a_deep_trace_is_short() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("bottom")
        deep(n - 1)

    try:
        deep(500)
    except ValueError as error:
        lines = describe(error).splitlines()

    assert len(lines) <= 7
    assert lines[0] == "ValueError: bottom"
