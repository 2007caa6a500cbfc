"""What everybody may see of those who say so: a page, a card for a README, and JSON.

Without a sign-in and without a cookie; other sites may embed the card and read the JSON. Whoever has not
said so is not there, as if there were no such person.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Any
from xml.sax.saxutils import escape

from duework import NotFound, Reply, Template
from systems.streaks import views
from systems.streaks.pages import LAST
from systems.streaks.part import part
from systems.streaks.streak import DAY, length, local_day

SHOWN = "select * from streaks_person where login_key = :key and shown = 1"
CALENDAR = "select * from streaks_calendar where person = :id"
# A day has a few checks; readers of a README come in thousands.
OPEN_TO_ALL = {
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
    "cache-control": "public, max-age=300",
}
WIDTH, HEIGHT, RECENT, BAR, TALLEST = 420, 120, 28, 13, 24


class Seen:
    """What is known of a person, as of the last check."""

    def __init__(self, login: str) -> None:
        app = part.app
        rows = app.read(SHOWN, key=login.lower())
        if not rows:
            raise NotFound(f"there is no public streak of {login!r:.60}")
        self.row = rows[0]
        self.today = local_day(app.now(), self.row.zone)
        self.last = _first(app.read(LAST, id=self.row.id))
        self.calendar = _first(app.read(CALENDAR, id=self.row.id))
        self.streak = self.last.streak if self.last else None
        self.longest = self.calendar.longest if self.calendar else None
        self.weekly = bool(self.last.weekly if self.last else self.row.weekly)

    def counts(self) -> dict[str, int]:
        """Contributions by day, oldest first."""
        if self.calendar is None:
            return {}
        first = date.fromisoformat(self.calendar.first)
        found = json.loads(self.calendar.counts)
        return {(first + n * DAY).isoformat(): count for n, count in enumerate(found)}


def _first(rows: list[Any]) -> Any:
    return rows[0] if rows else None


@part.page("/u/{login}", title="A streak", auth="public", nav=False)
def profile(login: str) -> Template:
    """The streak of somebody who shows it."""
    seen = Seen(login)
    return Template(
        "profile.html",
        one=seen.row,
        verdict=views.as_of(seen.last, seen.today),
        calendar=views.calendar(seen.calendar, seen.today),
        streak=seen.streak,
        longest=seen.longest,
    )


@part.route("/api/streaks/{login}", auth="public")
def as_json(login: str) -> Reply:
    """The same for programs."""
    seen = Seen(login)
    body = {
        "login": seen.row.login,
        "day": seen.last.day if seen.last else None,
        "contributionsToday": seen.last.contributions if seen.last else None,
        "currentStreak": seen.streak,
        "longestStreak": seen.longest,
        "unit": "week" if seen.weekly else "day",
        "days": [{"date": day, "count": count} for day, count in seen.counts().items()],
    }
    return Reply(200, body, OPEN_TO_ALL)


@part.route("/api/streaks/{login}/card.svg", auth="public")
def card(login: str) -> Reply:
    """A picture for a README."""
    return Reply(200, draw(Seen(login)), {"content-type": "image/svg+xml", **OPEN_TO_ALL})


def draw(seen: Seen) -> str:
    """The card: streak, longest, and the last four weeks as bars; no style and no script."""
    lead = _length(seen, seen.streak)
    longest = _length(seen, seen.longest)
    day = f"as of {seen.last.day}" if seen.last else "not checked yet"
    label = escape(f"{seen.row.login}: {lead}; longest: {longest}, {day}", {'"': "&quot;"})
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}" font-family="sans-serif">'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="6" fill="#ffffff" '
        f'stroke="#d0d7de"/>{_text(16, 26, 13, "#57606a", seen.row.login)}'
        f"{_text(16, 58, 26, '#1f2328', lead)}"
        f"{_text(220, 26, 13, '#57606a', 'longest ' + longest)}{_text(220, 58, 13, '#57606a', day)}"
        f"{_bars(list(seen.counts().values())[-RECENT:])}</svg>"
    )


def _length(seen: Seen, count: int | None) -> str:
    return "none yet" if count is None else length(count, weekly=seen.weekly)


def _text(x: int, y: int, size: int, colour: str, words: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}">{escape(words)}</text>'


def _bars(counts: list[int]) -> str:
    top = max([*counts, 1])
    drawn = []
    for n, count in enumerate(counts):
        height = max(2, -(-count * TALLEST // top))
        colour = "#2da44e" if count else "#d0d7de"
        y = HEIGHT - 16 - height
        drawn.append(
            f'<rect x="{16 + n * BAR}" y="{y}" width="{BAR - 3}" height="{height}" fill="{colour}"/>'
        )
    return "".join(drawn)
