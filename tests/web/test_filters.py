"""Numbers and times read as the table says."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal

import pytest

from duework.clock import FOREVER
from duework.web import filters
from duework.web.json_text import LINES, MOST, folded, pieces

S, MIN, H, D = 1000, 60_000, 3_600_000, 86_400_000
NOW = 1_794_925_087_000  # Tue 17 Nov 2026 14:18:07 UTC
NONE = filters.NONE


@pytest.mark.parametrize(
    ("count", "words"),
    [
        *((None, NONE), (0, "0"), (7, "7"), (1204, "1,204"), (99_999, "99,999")),
        *((100_000, "100 k"), (412_000, "412 k"), (999_499, "999 k"), (999_500, "1 M")),
        *((1_200_000, "1.2 M"), (45_600_000, "45.6 M"), (99_960_000, "100 M"), (3 * 10**9, "3 G")),
    ],
)
def test_counts(count: int | None, words: str) -> None:
    assert filters.n(count) == words


def test_a_count_that_stops_at_a_bound_says_so() -> None:
    assert filters.counted(99_999) == "99,999"
    assert filters.counted(100_000) == "100,000+"
    assert filters.counted(300_000) == "100,000+"


@pytest.mark.parametrize(
    ("per_second", "words"),
    [(None, NONE), (6.9, "6.9/s"), (1, "1/s"), (412.3, "412/s"), (41 / 60, "41/min"), (0, "0/min")],
)
def test_rates(per_second: float | None, words: str) -> None:
    assert filters.rate(per_second) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        *((None, NONE), (0.84, "840 µs"), (3, "3 ms"), (999, "999 ms"), (1000, "1 s")),
        *((1400, "1.4 s"), (9949, "9.9 s"), (9950, "10 s"), (12_300, "12 s"), (59_600, "1 min")),
        *((68 * S, "1 min 8 s"), (2 * H + MIN, "2 h 1 min"), (2 * H + 5 * S, "2 h")),
        *((6 * D + 4 * H + MIN, "6 d 4 h"), (400 * D, "400 d"), (-5, "0 µs")),
    ],
)
def test_lengths_of_time(ms: float | None, words: str) -> None:
    assert filters.dur(ms) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        *((None, NONE), (0, "0 bytes"), (1, "1 byte"), (214, "214 bytes"), (1500, "1.5 kB")),
        *((999_600, "1 MB"), (6_400_000_000, "6.4 GB"), (5 * 10**15, "5000 TB")),
    ],
)
def test_sizes(count: int | None, words: str) -> None:
    assert filters.size(count) == words


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        *(("5", "$", "$5.00"), ("0.012454", "$", "$0.012454"), ("0.1", "€", "€0.10")),
        *(("1204", "tokens", "1,204 tokens"), ("2.50", "km", "2.5 km"), ("5.00", "", "5")),
        *(("0.000001", "", "0.000001"), ("1000000", "$", "$1,000,000.00")),
    ],
)
def test_amounts_of_budgets(value: str, unit: str, words: str) -> None:
    assert filters.amount(Decimal(value), unit) == words


@pytest.mark.parametrize(
    ("part", "words"), [(None, NONE), (0, "0 %"), (0.001, "<1 %"), (0.82, "82 %"), (1, "100 %")]
)
def test_shares(part: float | None, words: str) -> None:
    assert filters.share(part) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        *((None, NONE), (NOW, "now"), (NOW - 999, "now"), (NOW - 8 * S, "8 s ago")),
        *((NOW - 90 * S, "1 min ago"), (NOW - 2 * H, "2 h ago"), (NOW + 45 * S, "in 45 s")),
        *((NOW + 4 * MIN + 12 * S, "in 4 min 12 s"), (NOW + 11 * MIN, "in 11 min")),
        *((NOW - D + S, "23 h ago"), (NOW - D, "Mon 14:18"), (NOW + 2 * D, "Thu 14:18")),
        *((NOW - 7 * D, "10 Nov"), (NOW - 14 * D, "3 Nov"), (NOW - 379 * D, "3 Nov 2025")),
        *((FOREVER, "not yet known"),),
    ],
)
def test_points_in_time(ms: int | None, words: str) -> None:
    assert filters.when(ms, NOW) == words


def test_the_exact_time_is_in_the_viewers_zone_and_in_utc() -> None:
    berlin = filters.zone_of("Europe/Berlin")

    assert filters.exact(NOW) == "Tue 17 Nov 2026 14:18:07.000 UTC"
    assert filters.exact(NOW + 418, berlin) == "Tue 17 Nov 2026 15:18:07.418 CET · 14:18:07 UTC"
    assert filters.when(NOW - D, NOW, berlin) == "Mon 15:18"
    assert filters.iso(NOW + 5) == "2026-11-17T14:18:07.005Z"


@pytest.mark.parametrize(
    "name", [None, "", "UTC", "No/Where", "../../etc/passwd", "/etc", "\0", "x" * 99]
)
def test_a_zone_that_is_none_is_utc(name: str | None) -> None:
    assert filters.zone_of(name) is UTC


def shown(text: str) -> str:
    return "".join(piece for _, piece in pieces(text))


def test_json_keeps_its_numbers_as_they_were_written() -> None:
    text = '{"a":12345678901234567890,"b":[1.10,-0,1e400],"c":{},"d":[],"e":"x, {y}"}'

    assert shown(text) == (
        '{\n  "a": 12345678901234567890,\n  "b": [\n    1.10,\n    -0,\n    1e400\n  ],\n'
        '  "c": {},\n  "d": [],\n  "e": "x, {y}"\n}'
    )


def test_json_does_not_show_what_is_called_a_secret() -> None:
    text = '{"token":"t0p","api_key":["t0p",{"x":"t0p"}],"PASSWORD":17,"name":"ada","n":{"secret":"t0p"}}'

    assert "t0p" not in shown(text)
    assert "17" not in shown(text)
    assert '"ada"' in shown(text)
    assert shown(text).count("secret, not shown") == 5


def test_json_that_is_long_deep_or_broken_is_shown_as_far_as_it_goes() -> None:
    assert len(shown('["' + "x" * 100_000 + '"]')) < MOST + 200
    assert "more characters" in shown("[" + "1," * 100_000 + "1]")
    assert len(shown("[" * 10_000 + "]" * 10_000)) < 3_000_000
    assert shown('{"a": "x') != ""
    assert shown("") == ""


def test_json_of_many_lines_is_folded_and_nothing_of_it_is_lost() -> None:
    text = "[" + ",".join(map(str, range(100))) + "]"

    first, rest, more = folded(text)

    before, behind = ("".join(piece for _, piece in part) for part in (first, rest))
    assert before.count("\n") == LINES - 1
    assert before.endswith("38,")
    assert more == behind.count("\n") + 1 == 102 - LINES
    assert f"{before}\n{behind}" == shown(text)
    assert folded("[1]")[1:] == ([], 3 - LINES)
