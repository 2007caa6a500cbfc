"""What can happen to a SQLite file: refused or parked with one line that says what to do."""

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from duework import App, Error, Gone, Job, SchemaMismatch, Unavailable, UsageError
from duework.db.sqlite import files, reserve
from duework.kernel.facts import JobSettled, Parked, Resumed
from tests.support.working import eventually, working

NOBODY = 65534


def made(path: Path) -> App:
    """An App with a task `greet`; not opened yet."""
    app = App(f"sqlite:///{path}")

    @app.task
    async def greet(name: str) -> str:
        return name

    return app


def enqueue(app: App, name: str = "ada") -> Job[Any]:
    [job] = app.wiring.jobs.enqueue([greet_job(app, name)])
    return job


def greet_job(app: App, name: str) -> Any:
    from duework.kernel.job import LaneName, NewJob

    payload = app.wiring.registry.find("greet").arguments.encode((name,), {})
    return NewJob(LaneName("default", "greet"), payload, app.now())


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, which may write anything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that any user can reach."""
    made = Path(shutil.os.path.realpath(tmp_path)) / "data"  # type: ignore[attr-defined]
    made.mkdir()
    for each in [made, *made.parents]:
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o711)
    if os.geteuid() == 0:
        os.chown(made, NOBODY, NOBODY)
    return made


def one_line(error: pytest.ExceptionInfo[Error]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


# --- refused at the door


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as raised:
        enqueue(made(tmp_path / "nowhere" / "work.db"))

    assert f"the folder {tmp_path / 'nowhere'} does not exist; create it" in one_line(raised)
    assert not (tmp_path / "nowhere").exists()


@pytest.fixture
def loaded(tmp_path: Path) -> None:
    """All that is loaded when first used: another user may not be able to read the package."""
    warm = made(tmp_path / "warm.db")
    enqueue(warm)
    warm.close()


@pytest.mark.usefixtures("loaded")
def test_a_folder_that_may_not_be_written_is_named_with_the_user(folder: Path) -> None:
    folder.chmod(0o555)

    with as_nobody(), pytest.raises(Unavailable) as raised:
        enqueue(made(folder / "work.db"))

    assert f"may not write in {folder}; change its owner or mode" in one_line(raised)
    folder.chmod(0o755)


@pytest.mark.usefixtures("loaded")
def test_a_file_that_may_not_be_written_is_named_with_the_user(folder: Path) -> None:
    path = folder / "work.db"
    with as_nobody():
        first = made(path)
        enqueue(first)
        first.close()
    path.chmod(0o444)

    with as_nobody(), pytest.raises(Unavailable) as raised:
        enqueue(made(path))

    assert "may not write it; change its owner or mode" in one_line(raised)
    assert str(path) in one_line(raised)


def test_a_folder_in_place_of_a_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises((Unavailable, UsageError)) as raised:
        enqueue(made(tmp_path))

    assert "it is a folder" in one_line(raised)


@pytest.mark.parametrize("content", [b"hello, world! " * 100, b"\x00" * 5000, b"garbage!"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "work.db"
    path.write_bytes(content)

    with pytest.raises(Unavailable, match="restore it from a backup") as raised:
        enqueue(made(path))

    assert str(path) in one_line(raised)
    assert path.read_bytes() == content


def test_a_destroyed_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    app = made(path)
    enqueue(app)
    app.close()
    with path.open("r+b") as file:
        file.write(b"garbage!")

    with pytest.raises(Unavailable, match="restore it from a backup"):
        enqueue(made(path))


def test_destroyed_pages_are_a_typed_error_and_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    app = made(path)
    for number in range(50):
        enqueue(app, f"{number}" * 500)
    app.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    broken = made(path)

    with pytest.raises(Error):
        enqueue(broken)

    broken.close()


def mounts(folder: Path, kind: str) -> str:
    return (
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
        f"23 22 0:40 / {folder} rw,relatime shared:1 - {kind} server:/export rw\n"
    )


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs"])
def test_a_network_file_system_is_refused_with_one_line(tmp_path: Path, kind: str) -> None:
    faked = tmp_path / "mountinfo"
    faked.write_text(mounts(tmp_path, kind))

    with pytest.raises(UsageError, match="network file system") as raised:
        files.claim(tmp_path / "work.db", force=False, mounts=faked)

    assert f"({kind})" in one_line(raised)
    assert "postgresql://" in one_line(raised)
    assert not (tmp_path / "work.db").exists()


def test_a_network_file_system_can_be_forced_and_a_local_one_needs_no_force(
    tmp_path: Path,
) -> None:
    faked = tmp_path / "mountinfo"
    faked.write_text(mounts(tmp_path, "nfs4"))
    files.claim(tmp_path / "forced.db", force=True, mounts=faked).release()
    faked.write_text(mounts(tmp_path, "xfs"))
    files.claim(tmp_path / "local.db", force=False, mounts=faked).release()

    assert (tmp_path / "forced.db").exists()
    assert (tmp_path / "local.db").exists()


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
def test_a_sqlite_with_the_wal_bug_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)

    with pytest.raises(SchemaMismatch, match=r"3\.51\.3 or newer") as raised:
        enqueue(made(tmp_path / "work.db"))

    assert version in one_line(raised)
    assert not (tmp_path / "work.db").exists()


def test_a_sqlite_without_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.3")
    app = made(tmp_path / "work.db")

    enqueue(app)

    app.close()


def test_a_newer_schema_is_refused_and_a_compatible_newer_one_is_not(url: str) -> None:
    first = App(url)
    ours = first.read("select max(number) as n from duework_migration where part = 'duework'")[0].n
    with first.transaction() as tx:
        tx.write(
            """insert into duework_migration (part, number, name, compatible)
               values ('duework', :n, 'later', :n)""",
            n=ours + 1,
        )
    first.close()

    with pytest.raises(SchemaMismatch, match="upgrade duework") as raised:
        App(url).jobs()
    assert one_line(raised)

    again = App(url)
    with pytest.raises(SchemaMismatch):
        again.worker()
    compatible(url, ours)
    third = App(url)
    assert third.jobs() == []
    third.close()


def compatible(url: str, ours: int) -> None:
    """The newer code says that ours may go on."""
    from duework.db.urls import open_database

    database = open_database(url)
    with database.transaction() as tx:
        tx.write("update duework_migration set compatible = :n where name = 'later'", n=ours)
    database.close()


def test_a_renamed_migration_is_refused(url: str) -> None:
    first = App(url)
    with first.transaction() as tx:
        tx.write("update duework_migration set name = 'other'")
    first.close()

    with pytest.raises(SchemaMismatch, match="never be renamed"):
        App(url).jobs()


# --- modes and links


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_file_is_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        app = made(tmp_path / "work.db")
        with working(app):
            enqueue(app).wait("10s")
            for _ in app.wiring.engine.database.backup(str(tmp_path / "copy.db")):
                pass
            found = {path.name: mode(path) for path in tmp_path.iterdir()}
        app.close()
    finally:
        os.umask(before)

    wanted = {"work.db", "work.db-wal", "work.db-shm", "work.db-ballast", "copy.db"}
    assert found == dict.fromkeys(wanted, 0o600)


def test_a_link_that_somebody_laid_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "work.db").symlink_to(victim)

    with pytest.raises(Unavailable, match="link that leads nowhere"):
        enqueue(made(tmp_path / "work.db"))

    assert not victim.exists()


def test_neither_ballast_nor_backup_goes_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "work.db-ballast").symlink_to(victim)
    (tmp_path / "copy.db").symlink_to(victim)
    app = made(tmp_path / "work.db")

    with working(app):
        enqueue(app).wait("10s")
    with pytest.raises(UsageError, match="there already"):
        list(app.wiring.engine.database.backup(str(tmp_path / "copy.db")))

    assert victim.read_text() == "precious"
    app.close()


def test_a_backup_does_not_overwrite(tmp_path: Path) -> None:
    app = made(tmp_path / "work.db")
    enqueue(app)
    (tmp_path / "copy.db").write_text("yesterday's")

    with pytest.raises(UsageError, match="there already"):
        list(app.wiring.engine.database.backup(str(tmp_path / "copy.db")))

    assert (tmp_path / "copy.db").read_text() == "yesterday's"
    app.close()


# --- gone


def deleted(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)


def renamed(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replaced(path: Path) -> None:
    other = path.with_name("other.db")
    empty = made(other)
    enqueue(empty, "another")
    empty.close()
    other.rename(path)


AWAY = pytest.mark.parametrize("away", [deleted, renamed, replaced])


@AWAY
def test_an_enqueuer_notices_that_the_file_is_gone(
    tmp_path: Path, away: Callable[[Path], None]
) -> None:
    path = tmp_path / "work.db"
    app = made(path)
    enqueue(app)

    away(path)

    for _ in range(3):
        with pytest.raises(Gone, match="deleted or replaced") as raised:
            enqueue(app)
    with pytest.raises(Gone), app.transaction():
        pass
    assert str(path) in one_line(raised)
    if away is not replaced:
        assert not path.exists(), "it must not come back empty"
    app.close()


@AWAY
def test_a_worker_stops_within_a_second_when_the_file_is_gone(
    tmp_path: Path, away: Callable[[Path], None]
) -> None:
    path = tmp_path / "work.db"
    app = made(path)
    with working(app) as running:
        enqueue(app).wait("10s")

        away(path)

        running.thread.join(2)
        assert isinstance(running.error, Gone)
        with pytest.raises(Gone):
            enqueue(app)
    if away is not replaced:
        assert not path.exists()
    app.close()


def test_what_is_committed_into_a_file_that_is_gone_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    app = made(path)
    engine = app.wiring.engine

    def slow(tx: Any, items: list[Any]) -> Any:
        answers = engine.enqueue(tx, items)
        deleted(path)
        return answers

    with pytest.raises(Gone):
        engine.writer.call(slow, [greet_job(app, "ada")])

    app.close()


# --- locked

HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
connection.execute("select count(*) from duework_job").fetchall()
print("held", flush=True)
time.sleep(float(sys.argv[3]))
connection.execute("rollback")
"""


@contextmanager
def foreign(path: Path, begin: str, seconds: float) -> Iterator[None]:
    """Another process that holds a transaction."""
    command = [sys.executable, "-c", HOLD, str(path), begin, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            process.kill()


def test_an_enqueue_waits_for_a_foreign_writer(tmp_path: Path) -> None:
    app = made(tmp_path / "work.db")
    enqueue(app)

    with foreign(tmp_path / "work.db", "begin immediate", 1.0):
        started = time.monotonic()
        job = enqueue(app)
        took = time.monotonic() - started

    assert 0.5 < took < 20
    assert job.refresh().state == "open"
    app.close()


def test_a_foreign_writer_that_does_not_let_go_is_a_typed_error(tmp_path: Path) -> None:
    app = made(tmp_path / "work.db")
    enqueue(app)

    with foreign(tmp_path / "work.db", "begin immediate", 60):
        started = time.monotonic()
        with pytest.raises(Unavailable, match="locked by another connection") as raised:
            enqueue(app)
        took = time.monotonic() - started

    assert 4.5 < took < 20
    assert "tx.enqueue" in one_line(raised)
    assert len(app.jobs()) == 1
    enqueue(app)
    app.close()


def test_a_worker_parks_behind_a_foreign_writer_and_goes_on_after_it(tmp_path: Path) -> None:
    app = made(tmp_path / "work.db")
    release = threading.Event()

    @app.task
    def slow() -> str:
        release.wait(60)
        return "done at last"

    with working(app) as running:
        job = slow.enqueue()
        eventually(lambda: app.jobs(phase="running"))

        with foreign(tmp_path / "work.db", "begin immediate", 60):
            release.set()
            eventually(lambda: running.told(Parked))
            assert job.refresh().state == "open"

        assert job.wait("10s").result == "done at last"
        eventually(lambda: running.told(Resumed))

    assert [fact.why for fact in running.told(Parked)] == [
        "the database is locked by another connection"
    ]
    assert running.error is None
    assert job.refresh().fence == 1
    app.close()


def test_a_long_foreign_reader_is_in_nobodys_way(tmp_path: Path) -> None:
    app = made(tmp_path / "work.db")
    enqueue(app)

    with working(app), foreign(tmp_path / "work.db", "begin", 60):
        started = time.monotonic()
        for _ in range(5):
            enqueue(app).wait("10s")

    assert time.monotonic() - started < 20
    app.close()


# --- full


# What a full disk still has room for.
LEFT = 32 * 1024


class Disk:
    """A small disk that can be filled up and emptied again."""

    def __init__(self, folder: Path, *, mounted: bool) -> None:
        self.path = folder / "work.db"
        self._filler = folder / "filler"
        self._mounted = mounted
        self._limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._reader: apsw.Connection | None = None

    def fill(self) -> None:
        if not self._mounted:
            # No file may grow any more: not a full disk, but as good as one, as long as somebody
            # reads: a checkpoint would else let the log start again from its beginning.
            self._reader = apsw.Connection(str(self.path))
            self._reader.execute("begin; select count(*) from duework_job")
            wal = Path(f"{self.path}-wal")
            size = max(wal.stat().st_size, self.path.stat().st_size)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + LEFT, self._limit[1]))
            return
        size = 65536
        with self._filler.open("ab", buffering=0) as file:
            while size >= 512:
                try:
                    file.write(b"x" * size)
                except OSError:
                    size //= 2
            file.truncate(file.tell() - LEFT)

    def empty(self) -> None:
        if self._mounted:
            self._filler.unlink(missing_ok=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)
        if self._reader is not None:
            self._reader.close()
            self._reader = None


@pytest.fixture(params=["full disk", "file size limit"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A tmpfs where one can be mounted; else, and in any case once, a limit on the size of files."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    mounted = (
        request.param == "full disk"
        and os.geteuid() == 0
        and shutil.which("mount") is not None
        and subprocess.run(command, check=False, capture_output=True).returncode == 0
    )
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    small = Disk(folder, mounted=mounted)
    try:
        yield small
    finally:
        small.empty()
        signal.signal(signal.SIGXFSZ, before)
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_up(app: App, disk: Disk) -> list[Job[Any]]:
    """Enqueue until there is no more room; the jobs that were acknowledged."""
    disk.fill()
    accepted = []
    for _ in range(500):
        try:
            new = [greet_job(app, "x" * 3000)]
            accepted += app.wiring.engine.writer.call(app.wiring.engine.enqueue, new, patience=0.5)
        except Unavailable:
            break
    else:
        raise AssertionError("the disk never got full")
    return accepted


def test_a_full_disk_refuses_new_work_settles_what_runs_and_recovers_by_itself(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "BALLAST_BYTES", 512 * 1024)
    app = made(disk.path)
    release = threading.Event()

    @app.task
    def slow(number: int) -> int:
        release.wait(60)
        return number

    with working(app) as running:
        ran = [slow.enqueue(number) for number in range(5)]
        eventually(lambda: len(app.jobs(phase="running")) == 5)
        app.pause("default")

        accepted = fill_up(app, disk)
        eventually(lambda: running.told(Parked))
        started = time.monotonic()
        with pytest.raises(Unavailable):
            enqueue(app)
        took = time.monotonic() - started
        release.set()
        if disk._mounted:  # noqa: SLF001 - the ballast cannot help against a limit
            eventually(lambda: len(running.told(JobSettled)) >= 5)
        assert not running.told(Resumed)

        disk.empty()
        eventually(lambda: running.told(Resumed))
        eventually(lambda: {job.refresh().state for job in ran} == {"done"})
        app.resume("default")
        last = enqueue(app).wait("10s")
        assert accepted
        eventually(lambda: {app.job(each.id).state for each in accepted} == {"done"})

    [parked] = running.told(Parked)
    assert "full" in parked.why or "disk" in parked.why
    assert "\n" not in parked.why
    assert took < 20
    assert last.state == "done"
    assert running.error is None
    assert files.ballast(disk.path).exists()
    [answer] = app.connect().execute("pragma integrity_check").fetchone()
    assert answer == "ok"
    app.close()


def test_a_plain_enqueuer_on_a_full_disk_gets_a_typed_error_and_goes_on_later(disk: Disk) -> None:
    app = made(disk.path)
    enqueue(app)

    accepted = fill_up(app, disk)
    with pytest.raises(Unavailable) as raised:
        enqueue(app)
    disk.empty()
    enqueue(app)

    assert one_line(raised)
    assert accepted
    assert len(app.jobs(limit=1000)) == len(accepted) + 2
    app.close()


def test_a_disk_too_small_for_a_ballast_is_used_without_one(disk: Disk) -> None:
    app = made(disk.path)

    with working(app):
        assert enqueue(app).wait("10s").state == "done"

    app.close()
