"""Times, counts and sizes as people say them, for the sentences of `why`, `needs` and the doctor."""

from __future__ import annotations

from duework.clock import FOREVER, as_datetime

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
# Below that a second more or less is worth saying.
FINE_SECONDS = 10
FINE_MINUTES = 10
_K = 1000


def length(ms: int) -> str:
    """At most two units: '3 ms', '1.4 s', '1 min 8 s', '2 h 1 min', '6 d 4 h'."""
    ms = max(0, ms)
    if ms < SECOND:
        return f"{ms} ms"
    if ms < MINUTE:
        tenths = ms // 100
        whole = tenths % 10 == 0 or ms >= FINE_SECONDS * SECOND
        return f"{ms // SECOND} s" if whole else f"{tenths / 10} s"
    for unit, name, less, of_less in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", SECOND, "s"),
    ):
        if ms >= unit:
            rest = ms % unit // less
            if unit == MINUTE and ms >= FINE_MINUTES * MINUTE:
                rest = 0
            return f"{ms // unit} {name}" + (f" {rest} {of_less}" if rest else "")
    raise AssertionError("a minute is the least of them")


def moment(time: int, now: int) -> str:
    """How far away a time is: 'in 4 min 12 s', '8 s ago', 'now'."""
    if abs(time - now) < SECOND:
        return "now"
    return f"in {length(time - now)}" if time > now else f"{length(now - time)} ago"


def on_the_clock(time: int, now: int) -> str:
    """A time to compare others with: '14:30:00 UTC', with its day if that is another one."""
    if time >= FOREVER - 1:
        return "somebody says so"
    there, here = as_datetime(time), as_datetime(now)
    if there.date() == here.date():
        return f"{there:%H:%M:%S} UTC"
    year = "" if there.year == here.year else f" {there.year}"
    return f"{there.day} {there:%b}{year} {there:%H:%M:%S} UTC"


def count(number: int, bound: int) -> str:
    """With commas; at its bound, 'at least'."""
    return f"{number:,}+" if number >= bound else f"{number:,}"


def three(value: float) -> str:
    """At most three digits, without a useless nought."""
    text = f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}"  # noqa: PLR2004 - as it rounds
    return text.removesuffix(".0")


def size(count: int) -> str:
    """Bytes in decimal units: 214 bytes, 6.4 GB."""
    if count < _K:
        return f"{count} byte" if count == 1 else f"{count} bytes"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= _K
        if value < 999.5 or unit == "TB":  # noqa: PLR2004 - what rounds to a thousand
            return f"{three(value)} {unit}"
    raise AssertionError("a TB is the most of them")


def first_line(text: str | None, most: int = 200) -> str:
    """What an error says first, short enough for a sentence."""
    line = (text or "").partition("\n")[0]
    return line if len(line) <= most else line[: most - 1] + "…"
