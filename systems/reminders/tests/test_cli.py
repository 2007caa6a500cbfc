"""The commands, as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from duework.testing import Harness
from systems.reminders import book, log
from systems.reminders.part import part
from systems.reminders.tests.conftest import Hook, remind
from systems.twins import Twins

ROOT = Path(__file__).parents[3]


def typed(*words: str) -> Result:
    """A command of this Part, on the App that the Harness has bound."""
    command = part.commands[words[0]]
    return CliRunner().invoke(command, list(words[1:]))


# What is said beside a list of nothing.
SILENCE = {
    "list": "no reminders are coming\n",
    "failed": "nothing has failed\n",
    "redrive": "nothing has failed\n",
    "endpoints": "no endpoints\n",
}


def test_a_reminder_is_added_listed_snoozed_and_deleted(h: Harness) -> None:
    made = typed("add", "Stretch", "0 9 * * MON-FRI", "--email", "ada@demo.example", "--json")
    assert made.exit_code == 0, made.output
    id_ = json.loads(made.output)["id"]

    assert id_ in typed("list").output
    assert json.loads(typed("list", "--json").output)["title"] == "Stretch"
    assert typed("snooze", id_, "5m").output == "fires at 2026-03-02 09:05:00 UTC\n"
    assert typed("delete", id_).output == "deleted\n"
    for words in (["list"], ["failed"], ["redrive", "--all"], ["endpoints"]):
        assert (typed(*words).stdout, typed(*words).stderr) == ("", SILENCE[words[0]])
    assert typed("list", "--json").output == ""


def test_what_failed_is_shown_with_its_reason_and_redriven(h: Harness, t: Twins) -> None:
    hook = Hook(t)
    hook.answers(503, 503, 503, 503, 200)
    remind(endpoint=hook.id)
    h.advance("1h")
    assert "again at 2026-03-02 09:01:00 UTC" in typed("failed").output
    h.advance("1h")

    shown = typed("failed").output
    assert "webhook: 503 from 127.0.0.1  4 attempts, given up" in shown
    assert typed("redrive").exit_code == 2
    assert typed("redrive", "--all").output.startswith("1 sent again")
    h.drain()
    assert log.failed() == []


MISTAKES = [
    ("add", "Stretch", "soon", "--email", "ada@demo.example"),
    ("add", "Stretch", "0 9 * * *"),
    ("add", "x" * 201, "0 9 * * *", "--email", "ada@demo.example"),
    ("snooze", "rem_none"),
    ("delete", "rem_none"),
    ("redrive", "7"),
]


def test_a_mistake_is_an_error_and_changes_nothing(h: Harness) -> None:
    for words in MISTAKES:
        assert typed(*words).exit_code != 0, words
    assert h.app.schedules("reminders:") == []


def test_the_system_answers_alone_on_a_file_of_its_own(tmp_path: Path) -> None:
    words = {"DUEWORK_URL": f"sqlite:///{tmp_path / 'alone.db'}", "PYTHONPATH": str(ROOT)}
    env = {**os.environ, **words, "DUEWORK_APP": "systems.reminders:app"}

    def duework(*words: str) -> str:
        command = [sys.executable, "-m", "duework", *words]
        return subprocess.run(
            command, env=env, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    duework("db", "migrate", "--create")
    duework("reminders", "add", "Stretch", "every 1h", "--email", "ada@demo.example")

    assert "Stretch" in duework("reminders", "list")


def test_a_line_is_said_previewed_shown_edited_and_done(h: Harness, t: Twins) -> None:
    line = "stretch every friday and sunday at 9:00 from 27 march to ada@demo.example"
    shown = typed("say", *line.split(), "--zone", "Europe/London", "--preview").output
    assert "2026-03-29T09:00:00+01:00  clocks turned" in shown
    assert book.count() == 0

    made = typed("say", *line.split(), "--zone", "Europe/London").output.split()[0]
    assert "  2026-03-27T09:00:00+00:00" in typed("show", made).output
    edited = typed("edit", made, "--when", "tomorrow at 9:00", "--repeat", "15m").output
    assert edited == "fires next at 2026-03-03 09:00:00 UTC\n"
    h.advance("1d 2h")
    assert typed("done", made).output == "done\n"
    assert typed("show", made).exit_code != 0


def test_files_are_written_and_read(h: Harness, t: Twins, tmp_path: Path) -> None:
    typed("add", "Stretch", "0 9 * * *", "--email", "ada@demo.example")
    for form in ("csv", "ics"):
        file = tmp_path / f"all.{form}"
        file.write_text(typed("export", "--format", form).output)
        said = typed("import", str(file), "--email", "ada@demo.example").output
        assert said == "0 made, 1 were there already, 0 are over\n"


def test_endpoints_are_made_listed_tested_and_rotated(h: Harness, t: Twins) -> None:
    made = typed("endpoints", "ada", f"{t.hooks.url}/hook/ada").output.split()[0]

    assert f"{made}  on     0  ada" in typed("endpoints").output
    assert typed("endpoints", "--test", made).output == "it was answered 200\n"
    assert typed("endpoints", "--rotate", made).output.startswith("whsec_")
