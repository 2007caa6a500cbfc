from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duework import App, NotFound, Run, SecretsError, UsageError
from duework.outside import keys
from duework.outside.keys import new_key
from duework.testing import Harness
from tests.support.docs import ROOT

TOKEN = "ghp_this-is-the-token-of-ada-7"  # noqa: S105 - made up
VARIABLES = ("DUEWORK_KEY", "DUEWORK_KEY_FILE")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key file that the environment names."""
    made = tmp_path / "secrets.key"
    made.write_text(f"{new_key()}\n")
    made.chmod(0o600)
    monkeypatch.setenv("DUEWORK_KEY_FILE", str(made))
    return made


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[App]:
    """An App on a file, with nothing in the environment."""
    app = App(f"sqlite:///{tmp_path / 'work.db'}")
    yield app
    app.close()


def test_what_was_sealed_opens_under_its_name(app: App, file: Path) -> None:
    app.secrets.seal("pat:7", TOKEN)
    app.secrets.seal("pat:8", "é" * 1000)

    assert app.secrets.open("pat:7") == TOKEN
    assert app.secrets.open("pat:8") == "é" * 1000
    assert type(app.secrets.open("pat:7")) is str


def test_a_second_value_takes_the_place_of_the_first(app: App, file: Path) -> None:
    app.secrets.seal("pat:7", "the old one")
    app.secrets.seal("pat:7", TOKEN)

    assert app.secrets.open("pat:7") == TOKEN
    assert app.secrets.names() == ["pat:7"]


def test_names_are_listed_by_their_beginning_and_forgotten(app: App, file: Path) -> None:
    for name in ("pat:7", "pat:10", "pat_x", "smtp", "Pat:1", "100%"):
        app.secrets.seal(name, TOKEN)

    assert app.secrets.names("pat:") == ["pat:10", "pat:7"]
    assert app.secrets.names("%") == []
    assert len(app.secrets.names()) == 6
    assert app.secrets.forget("pat:7")
    assert not app.secrets.forget("pat:7")
    with pytest.raises(NotFound, match="pat:7"):
        app.secrets.open("pat:7")


def test_every_verb_has_its_twin_for_async_code(app: App, file: Path) -> None:
    async def use() -> tuple[Any, ...]:
        await app.secrets.aseal("pat:7", TOKEN)
        opened, names = await app.secrets.aopen("pat:7"), await app.secrets.anames("p")
        return opened, names, await app.secrets.arotate(), await app.secrets.aforget("pat:7")

    assert asyncio.run(use()) == (TOKEN, ["pat:7"], 1, True)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, 7, None])
def test_a_name_that_is_none_is_refused(harness: Harness, name: Any) -> None:
    for verb in (harness.app.secrets.open, harness.app.secrets.forget):
        with pytest.raises(UsageError, match="name"):
            verb(name)
    with pytest.raises(UsageError, match="name"):
        harness.app.secrets.seal(name, TOKEN)


@pytest.mark.parametrize("value", ["", None, 7, b"bytes", "x" * 65_537, "\ud800"])
def test_a_value_that_is_none_is_refused_and_changes_nothing(harness: Harness, value: Any) -> None:
    harness.app.secrets.seal("pat:7", TOKEN)
    if value is not None:
        with pytest.raises(UsageError, match="pat:7"):
            harness.app.secrets.seal("pat:7", value)

    assert harness.app.secrets.open("pat:7") == TOKEN


def test_a_row_and_its_secret_are_one_commit(harness: Harness) -> None:
    app = harness.app
    with contextlib.suppress(ZeroDivisionError), app.transaction() as tx:
        tx.seal("pat:7", TOKEN)
        raise ZeroDivisionError
    assert app.secrets.names() == []

    with app.transaction() as tx:
        tx.write("create table person (id bigint)")
        tx.write("insert into person (id) values (7)")
        tx.seal("pat:7", TOKEN)
        assert not tx.forget("pat:8")
    assert app.secrets.open("pat:7") == TOKEN

    with app.transaction() as tx:
        assert tx.forget("pat:7")
    assert app.secrets.names() == []


def test_a_run_opens_secrets_and_seals_with_its_settle(harness: Harness) -> None:
    seen: list[str] = []

    @harness.app.task
    def renew(run: Run) -> None:
        seen.append(run.secret("pat:7"))
        run.commit(lambda tx: tx.seal("pat:7", "another-token"))

    harness.app.secrets.seal("pat:7", TOKEN)
    renew.enqueue()
    harness.drain()

    assert seen == [TOKEN]
    assert harness.app.secrets.open("pat:7") == "another-token"


def test_what_was_opened_is_left_out_of_errors_that_are_stored(harness: Harness) -> None:
    @harness.app.task(retries=0)
    def leak(run: Run) -> None:
        raise ValueError("x" * 1490 + run.secret("pat:7"))

    harness.app.secrets.seal("pat:7", TOKEN)
    job = leak.enqueue()
    harness.drain()

    error = harness.app.job(job.id).error or ""
    assert TOKEN[:8] not in error
    assert "***" in error


def test_a_harness_has_a_key_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("sqlite:///never-opened.db")
    monkeypatch.setenv("DUEWORK_KEY", "nonsense")
    with Harness(app):
        app.secrets.seal("pat:7", TOKEN)
        assert app.secrets.open("pat:7") == TOKEN


# --- at rest


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.suffix != ".key")


def test_no_file_of_the_database_holds_a_value(beside: App, tmp_path: Path) -> None:
    for number in range(50):
        beside.secrets.seal(f"pat:{number}", f"{TOKEN}-{number}")
    with beside.transaction() as tx:
        tx.seal("pat:0", f"{TOKEN}-changed")
    beside.secrets.rotate()
    assert beside.secrets.open("pat:49") == f"{TOKEN}-49"

    text = everything(tmp_path)
    assert b"pat:49" in text
    assert (tmp_path / "work.db-wal").exists()
    for size in (len(TOKEN), 12):
        assert TOKEN[:size].encode() not in text
        assert TOKEN[:size].encode("utf-16-le") not in text


def test_no_row_of_the_database_holds_a_value(app: App, file: Path) -> None:
    app.secrets.seal("pat:7", TOKEN)

    [row] = app.read("select * from duework_secret")

    assert TOKEN.encode() not in bytes(row.sealed)
    assert len(bytes(row.sealed)) == 12 + len(TOKEN) + 16


def test_the_same_value_is_never_sealed_the_same_way(app: App, file: Path) -> None:
    for number in range(200):
        app.secrets.seal(f"pat:{number}", TOKEN)

    sealed = [bytes(row.sealed) for row in app.read("select sealed from duework_secret")]

    assert len({each[:12] for each in sealed}) == 200
    assert len({each[12:] for each in sealed}) == 200


def test_nothing_of_ours_shows_a_key_or_a_value(beside: App, tmp_path: Path) -> None:
    from duework.outside.secrets import NewSecret

    beside.secrets.seal("pat:7", TOKEN)
    ring = keys.key_ring(beside.wiring.bound.url, None)
    assert ring is not None
    text = f"{NewSecret('a', TOKEN)!r} {beside.secrets!r} {ring!r} {ring.first!r}"

    assert TOKEN not in text
    assert (tmp_path / "work.db.key").read_text().strip() not in text
    assert repr(ring.first.raw) not in text


# --- tampering


def change(app: App, sql: str, **values: Any) -> None:
    with app.transaction() as tx:
        tx.write(sql, **values)


def test_two_rows_that_were_swapped_do_not_open(app: App, file: Path) -> None:
    app.secrets.seal("pat:7", TOKEN)
    app.secrets.seal("pat:8", "another-token")
    change(app, "update duework_secret set name = 'tmp' where name = 'pat:7'")
    change(app, "update duework_secret set name = 'pat:7' where name = 'pat:8'")
    change(app, "update duework_secret set name = 'pat:8' where name = 'tmp'")

    for name in ("pat:7", "pat:8"):
        with pytest.raises(SecretsError, match="does not open") as raised:
            app.secrets.open(name)
        assert raised.value.__cause__ is None


def test_any_changed_or_missing_byte_is_seen(app: App, file: Path) -> None:
    app.secrets.seal("pat:7", TOKEN)
    [(sealed,)] = app.read("select sealed from duework_secret")
    right = bytes(sealed)
    for place in range(0, len(right), 5):
        wrong = bytearray(right)
        wrong[place] ^= 1
        change(app, "update duework_secret set sealed = :sealed", sealed=bytes(wrong))
        with pytest.raises(SecretsError, match="does not open"):
            app.secrets.open("pat:7")
    for wrong_size in (b"", right[:5], right[:12], right[:20], right[:-1], right + b"x"):
        change(app, "update duework_secret set sealed = :sealed", sealed=wrong_size)
        with pytest.raises(SecretsError, match="does not open"):
            app.secrets.open("pat:7")


def test_another_key_opens_nothing_and_changes_nothing(
    app: App, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.secrets.seal("pat:7", TOKEN)
    right = file.read_text()
    file.write_text(f"{new_key()}\n")

    with pytest.raises(SecretsError, match="not among those given"):
        app.secrets.open("pat:7")
    with pytest.raises(SecretsError, match="not among those given"):
        app.secrets.rotate()

    file.write_text(file.read_text() + right)
    assert app.secrets.open("pat:7") == TOKEN


# --- keys


def test_beside_a_file_the_key_is_made_with_the_first_secret(beside: App, tmp_path: Path) -> None:
    key = tmp_path / "work.db.key"
    assert beside.secrets.names() == []
    with pytest.raises(NotFound):
        beside.secrets.open("pat:7")
    assert not key.exists()

    beside.secrets.seal("pat:7", TOKEN)

    assert key.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if "key" in path.name] == ["work.db.key"]


def test_a_key_file_that_is_gone_is_never_replaced_by_another(beside: App, tmp_path: Path) -> None:
    beside.secrets.seal("pat:7", TOKEN)
    key = tmp_path / "work.db.key"
    kept = key.rename(tmp_path / "kept")

    for verb in (lambda: beside.secrets.open("pat:7"), lambda: beside.secrets.seal("pat:8", "x")):
        with pytest.raises(SecretsError, match="put it back"):
            verb()
    assert not key.exists()

    kept.rename(key)
    assert beside.secrets.open("pat:7") == TOKEN
    assert beside.secrets.names() == ["pat:7"]


def test_a_server_needs_a_key_that_all_its_clients_have(
    app: App, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "postgres":
        with pytest.raises(SecretsError, match="DUEWORK_KEY_FILE"):
            app.secrets.seal("pat:7", TOKEN)
    monkeypatch.setenv("DUEWORK_KEY_FILE", str(tmp_path / "absent"))

    with pytest.raises(SecretsError, match="absent is not there"):
        app.secrets.seal("pat:7", TOKEN)

    monkeypatch.setenv("DUEWORK_KEY", new_key())
    app.secrets.seal("pat:7", TOKEN)
    assert app.secrets.open("pat:7") == TOKEN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_key_file_that_others_can_read_is_refused(beside: App, file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(SecretsError, match="chmod 600"):
        beside.secrets.seal("pat:7", TOKEN)


@pytest.mark.parametrize("text", ["", "\n \n", "short", "c2hvcnQ=", "!" * 44, "é" * 44])
def test_a_key_that_is_none_is_refused_and_not_repeated(beside: App, file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(SecretsError, match="openssl rand") as raised:
        beside.secrets.seal("pat:7", TOKEN)

    assert not text.strip() or text not in str(raised.value)


def test_of_several_keys_in_the_environment_the_first_seals_and_all_open(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = new_key(), new_key()
    monkeypatch.setenv("DUEWORK_KEY", old)
    app.secrets.seal("pat:7", TOKEN)
    with pytest.raises(UsageError, match="put a new one before it"):
        app.secrets.rotate()
    monkeypatch.setenv("DUEWORK_KEY", f"{new}, {old}")

    assert app.secrets.open("pat:7") == TOKEN
    assert app.secrets.rotate() == 1

    monkeypatch.setenv("DUEWORK_KEY", new)
    assert app.secrets.open("pat:7") == TOKEN


def test_an_app_can_be_given_its_key(url: str) -> None:
    key = new_key()
    first = App(url, secrets_key=key)
    first.secrets.seal("pat:7", TOKEN)
    first.close()

    second = App(url, secrets_key=f"{new_key()},{key}")
    assert second.secrets.open("pat:7") == TOKEN
    second.close()


# --- rotation


def test_a_rotation_seals_everything_anew(app: App, file: Path) -> None:
    for number in range(450):
        app.secrets.seal(f"pat:{number}", f"{TOKEN}-{number}")
    [old] = file.read_text().split()

    assert app.secrets.rotate() == 450

    new, kept = file.read_text().split()
    assert kept == old
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(new)
    assert [app.secrets.open(f"pat:{n}") for n in range(450)] == [
        f"{TOKEN}-{n}" for n in range(450)
    ]


def test_a_rotation_that_was_killed_goes_on_with_the_key_it_made(app: App, file: Path) -> None:
    for number in range(5):
        app.secrets.seal(f"pat:{number}", f"{TOKEN}-{number}")
    ring = keys.key_ring("", None)
    assert ring is not None
    # As far as it came: the key is there, and nothing is sealed with it.
    keys.add_key(ring)
    app.secrets.seal("pat:0", "sealed-meanwhile")

    assert app.secrets.rotate() == 4

    assert len(file.read_text().split()) == 2
    assert app.secrets.open("pat:0") == "sealed-meanwhile"
    assert app.secrets.open("pat:4") == f"{TOKEN}-4"


def test_keys_that_two_add_at_once_are_both_kept(file: Path) -> None:
    ring = keys.key_ring("", None)
    assert ring is not None
    code = "from duework.outside.keys import *; r = key_ring('', None); [add_key(r) for _ in range(50)]"
    adding = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]

    assert [each.wait() for each in adding] == [0, 0]
    assert len(set(file.read_text().split())) == 101


# --- processes


def program(call: str, **more: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | more
    command = [sys.executable, "-c", f"from tests.support import sealing; sealing.{call}"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_of_two_processes_that_seal_at_once_each_opens_what_the_other_did(
    beside: App, tmp_path: Path
) -> None:
    address = f"sqlite:///{tmp_path / 'work.db'}"
    both = [program(f"seal({n}, {n + 20})", SEALING_URL=address) for n in (0, 20)]
    assert [each.wait() for each in both] == [0, 0]
    for each in both:
        each.communicate()

    opened = [beside.secrets.open(f"pat:{n}") for n in range(40)]

    assert opened == [f"token-of-{n}" for n in range(40)]
    assert len((tmp_path / "work.db.key").read_text().split()) == 1


def test_an_isolated_task_gets_a_secret_from_its_worker(app: App, url: str, file: Path) -> None:
    app.secrets.seal("pat:7", TOKEN)

    running = program("main()", SEALING_URL=url)
    said, _ = running.communicate()

    used, missed, leaked = said.splitlines()[:3]
    assert (used, missed) == (str(len(TOKEN)), "there is no secret 'nobody'")
    assert leaked == "ValueError: could not log in with ***"
    assert TOKEN not in said


def test_a_missing_library_is_named(beside: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(UsageError, match=r"pip install 'duework\[outside\]'"):
        beside.secrets.seal("pat:7", TOKEN)
