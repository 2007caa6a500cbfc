"""Settings of parts: from a file and the environment, checked, and silent about secrets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duework import App, Part, Rate, Secret, UsageError
from duework.config import shown
from duework.testing import Harness


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    url: str = "https://api.github.com"
    people: int = 10
    hosts: tuple[str, ...] = ()
    token: Secret | None = None


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    server: str


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(kind: type[msgspec.Struct] = Settings) -> Any:
    return Part("streaks", settings=kind).settings


def test_a_part_without_a_file_has_its_defaults() -> None:
    assert settings() == Settings()


def test_a_table_of_the_file_fills_the_fields(empty_folder: Path) -> None:
    text = '[streaks]\npeople = 20\nhosts = ["a", "b"]\n[other]\nunknown = 1\n'
    (empty_folder / "duework.toml").write_text(text)

    assert settings() == Settings(people=20, hosts=("a", "b"))


def test_the_environment_goes_before_the_file(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_folder / "elsewhere.toml").write_text('[streaks]\npeople = 20\nurl = "x"\n')
    monkeypatch.setenv("DUEWORK_CONFIG", "elsewhere.toml")
    monkeypatch.setenv("STREAKS_PEOPLE", "30")
    monkeypatch.setenv("STREAKS_HOSTS", '["c"]')

    assert settings() == Settings(people=30, url="x", hosts=("c",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[streaks]\npeeple = 1\n", r"peeple.* no setting of streaks; there are: hosts, people"),
        ('[streaks]\npeople = "many"\n', r"\[streaks\] people in duework.toml: Expected `int`"),
        ("streaks = 3\n", "should be a table"),
        ("[streaks\n", "cannot read duework.toml"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(
    text: str, says: str, empty_folder: Path
) -> None:
    (empty_folder / "duework.toml").write_text(text)

    with pytest.raises(UsageError, match=says):
        settings()


def test_a_mistake_in_the_environment_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAKS_PEOPLE", "many")

    with pytest.raises(UsageError, match="STREAKS_PEOPLE: Expected `int`"):
        settings()


def test_a_setting_that_is_missing_says_where_it_may_stand() -> None:
    with pytest.raises(UsageError, match=r"needs the setting server.*STREAKS_SERVER"):
        settings(Needs)


def test_a_file_that_was_named_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUEWORK_CONFIG", "gone.toml")

    with pytest.raises(UsageError, match=r"gone.toml, which is not there"):
        settings()


def test_a_secret_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAKS_TOKEN", "ghp_very_secret")
    found = settings()

    assert found.token.reveal() == "ghp_very_secret"
    texts = [repr(found), f"{found}", f"{found.token}", "%s" % found.token, str(shown(found))]  # noqa: UP031
    assert not [text for text in texts if "ghp" in text]
    with pytest.raises(TypeError):
        msgspec.json.encode(found.token)
    assert found.token == Secret("ghp_very_secret") != Secret("other")


def test_a_mistake_in_the_settings_is_one_when_the_part_is_included(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAKS_PEOPLE", "many")

    with pytest.raises(UsageError, match="STREAKS_PEOPLE"):
        harness.app.include(Part("streaks", settings=Settings))


def test_a_part_knows_its_app_once_it_is_included(harness: Harness) -> None:
    part = Part("streaks")
    with pytest.raises(UsageError, match="include"):
        _ = part.app

    harness.app.include(part)

    assert part.app is harness.app


def test_a_queue_of_a_part_holds_for_the_app(harness: Harness) -> None:
    part = Part("streaks")
    part.queue("people", concurrency=2, pace=Rate("5/1m"))
    ran = []

    @part.task(queue="people")
    async def check(number: int) -> None:
        ran.append(number)

    harness.app.include(part)
    check.enqueue_many([(number,) for number in range(8)])
    harness.drain()

    assert len(ran) < 8
    assert harness.app.wiring.registry.queue_limits == {"people": 2}
    with pytest.raises(UsageError):
        part.queue("")


def test_settings_are_asked_for_only_where_there_are_some() -> None:
    with pytest.raises(UsageError, match="has no settings"):
        _ = Part("plain").settings


COMMANDS = """
import click
from duework import App, Part

app = App("sqlite:///work.db")
part = Part("streaks")

@part.task
def check(user: int) -> None: ...

@part.command
@click.argument("users", nargs=-1, type=int)
def load(users):
    "Enqueue a check for each user."
    click.echo(len(check.enqueue_many([(user,) for user in users])))

app.include(part)
"""


def duework(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "duework", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_part_has_commands_of_its_own(empty_folder: Path) -> None:
    (empty_folder / "shop.py").write_text(COMMANDS)

    ran = duework("streaks", "--app", "shop:app", "load", "1", "2", "3")
    helped = duework("streaks", "--app=shop:app", "--help")
    unknown = duework("streaks", "--app", "shop:app", "lode")
    nobody = duework("streaks", "load")

    assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr
    assert "Enqueue a check" in helped.stdout
    assert unknown.returncode == nobody.returncode == 78
    assert "No such command" in nobody.stderr
    app = App("sqlite:///work.db")
    assert [job.task for job in app.jobs()] == ["streaks.check"] * 3
    app.close()
