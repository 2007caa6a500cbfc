"""The director: plays the script, prints what happens, keeps the score, and judges a check at its end."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from duework import App
from systems.demo.part import keep, kept, newest, notes
from systems.demo.receivers import Receivers
from systems.demo.score import SENDERS, Score, score
from systems.demo.script import Script, Step
from systems.demo.stage import Stage, StageError

# How often the score is taken, in real seconds.
EVERY = 2.0
QUIET = 90.0
SLOWEST_RECOVERY = 30.0
AT_LEAST, AT_LEAST_EACH = 500, 20
LOST_REPLIES = 8
# A terminal of the usual width; a note stands behind its time and its system.
COLUMNS, INDENT = 80, 18
GLYPHS = {"failed": "red", "late": "yellow", "unsure": "magenta", "done": "green"}


class Director:
    """One run of the demo."""

    def __init__(self, app: App, stage: Stage, console: Console) -> None:
        self.app = app
        self.stage = stage
        self.console = console
        self.ledger = stage.folder / "ledger.json"
        self.receivers = Receivers(stage.twins, _load(self.ledger))
        self.script = Script(app, self.receivers)
        self._began = time.monotonic()
        self._last = next((each.id for each in newest(app, 1)), "")
        self._scored = 0.0
        self._said = ""
        self.score = Score([])

    def play(self, steps: list[Step]) -> None:
        """The script, each step at its second."""
        for step in steps:
            self._until(self._began + step.at)
            self.script.play(step)
            self._print()

    def stay(self) -> None:
        """Go on until somebody says stop."""
        self._until(float("inf"))

    def settle(self) -> None:
        """Let nothing new begin, and wait until what was promised is over."""
        for schedule in self.app.schedules(prefix="reminders:"):
            schedule.pause()
        self.app.get_schedule("scout.crawl").pause()
        deadline = time.monotonic() + QUIET
        while time.monotonic() < deadline:
            self._until(time.monotonic() + 1)
            self.take_score()
            if not any(line.on_the_way for line in self.score.lines):
                break

    def take_score(self) -> Score:
        """Now; the page shows what is kept."""
        self.score = score(self.app, self.receivers)
        keep(self.app, "score", self.score.as_json())
        self._scored = time.monotonic()
        return self.score

    def close(self) -> None:
        """What arrived, and the time it is: the next start goes on from there."""
        books = {name: self.receivers.ledger(name) for name in self.stage.twins}
        self.ledger.write_text(json.dumps(books))
        keep(self.app, "stopped", self.app.now())

    def _until(self, when: float) -> None:
        while time.monotonic() < when:
            if fallen := self.stage.fell_over():
                raise StageError(fallen)
            self._print()
            if time.monotonic() - self._scored > EVERY:
                self.take_score()
                self._bar()
            time.sleep(max(0.0, min(0.2, when - time.monotonic())))

    def _print(self) -> None:
        for each in notes(self.app, self._last):
            self._last = each.id
            at = time.monotonic() - self._began
            colour = GLYPHS.get(each.kind, "default")
            name = each.system.upper() if each.system == "chaos" else each.system
            first, *rest = folded(each.text)
            self.console.print(
                f"{int(at) // 60}:{int(at) % 60:02}  [{colour}]{name:<11}[/] {first}",
                highlight=False,
            )
            for line in rest:
                self.console.print(f"{'':{INDENT}}{line}", highlight=False)

    def _bar(self) -> None:
        """On a terminal the score stands in the title; elsewhere it is printed when it has changed."""
        text = str(self.score)
        if self.console.is_terminal:
            self.console.set_window_title(text)
        if text != self._said and not self.console.is_terminal:
            self._said = text
            self.console.print(f"      score      {text}", highlight=False)


def folded(text: str) -> list[str]:
    """A note in lines that fit beside its time and its system."""
    return textwrap.wrap(text, COLUMNS - INDENT, break_on_hyphens=False) or [""]


def verdicts(app: App, told: Score) -> list[str]:
    """What is wrong with the score of a whole run; nothing, if it is as it should be."""
    lost_replies, kills = kept(app, "lost_replies", 0), kept(app, "kills", 0)
    recovery = kept(app, "recovery")
    checks: list[tuple[bool, str]] = [
        (told.total("promised") >= AT_LEAST, f"fewer than {AT_LEAST} deliveries were promised"),
        (told.everywhere("lost") == 0, f"{told.everywhere('lost')} were lost"),
        (told.everywhere("twice") == 0, f"{told.everywhere('twice')} came twice"),
        (lost_replies >= LOST_REPLIES, f"only {lost_replies} replies were lost"),
        (kills >= 1, "no worker was killed"),
        (recovery is not None, "no recovery was measured"),
        ((recovery or 0) <= SLOWEST_RECOVERY, f"recovery took {recovery} s"),
        (bool(kept(app, "verify")), "an invariant is broken: duework verify"),
        (
            told.everywhere("on_the_way") == 0,
            f"{told.everywhere('on_the_way')} are still on the way",
        ),
        (told.total("unsure") <= lost_replies + kills * KILL_SENDS, "too many are unsure"),
    ]
    wrong = [sentence for holds, sentence in checks if not holds]
    for line in told.lines:
        if line.promised < AT_LEAST_EACH:
            wrong.append(f"{line.system} promised only {line.promised}")
    return wrong


# Sends on channels without a key that one kill may interrupt.
KILL_SENDS = 10


def table(told: Score, app: App, say: Callable[[str], None]) -> None:
    """The score, line by line."""
    say("SCORE (from the receivers' ledgers, not from us)")
    say(
        f"  {'':<11}{'promised':>9}{'delivered':>11}{'lost':>6}{'twice':>7}{'unsure':>8}{'failed':>8}"
    )
    for line in told.lines:
        counts = f"{line.promised:>9,}{line.delivered:>11,}{line.lost:>6}{line.twice:>7}"
        say(f"  {line.system:<11}{counts}{line.unsure:>8}{line.failed:>8}")
        for example in line.examples[:3]:
            for part in textwrap.wrap(example, COLUMNS - 6):
                say(f"      {part}")
    recovery = kept(app, "recovery")
    slowest = "" if recovery is None else f" · slowest recovery {recovery} s"
    say(f"  messages to people ({', '.join(SENDERS)}):")
    say(f"  {told}{slowest}")


def _load(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text())
    return found
