"""Mistakes of the caller: a UsageError that says what is right, and nothing written."""

import os
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duework import App, Conflict, Error, Exponential, NotFound, Part, UsageError
from duework.testing import Harness
from tests.support.working import working


def define(app: App) -> Any:
    @app.task
    async def greet(name: str = "ada") -> str:
        return name

    return greet


def idle() -> None: ...


BAD_OPTIONS: dict[str, dict[str, Any]] = {
    "unknown": {"colour": "red"},
    "priority too high": {"priority": 10},
    "priority below": {"priority": -1},
    "priority of another type": {"priority": "high"},
    "priority as a flag": {"priority": True},
    "queue with a space": {"queue": "my queue"},
    "queue with a line end": {"queue": "default\n"},
    "empty queue": {"queue": ""},
    "traversal as a queue": {"queue": "../../etc"},
    "queue of another type": {"queue": 7},
    "negative retries": {"retries": -1},
    "retries of another type": {"retries": "three"},
    "negative timeout": {"timeout": -1},
    "timeout of nonsense": {"timeout": "soon"},
    "timeout of NaN": {"timeout": float("nan")},
    "timeout of infinity": {"timeout": float("inf")},
    "negative timedelta": {"timeout": timedelta(seconds=-1)},
    "backoff of nonsense": {"backoff": ("1m", "later")},
    "empty backoff": {"backoff": ()},
    "concurrency of none": {"concurrency": 0},
    "unknown isolation": {"isolation": "vm"},
    "a budget without a process": {"memory_mb": 100},
    "keep of nonsense": {"keep": "a while"},
    "a name with a slash": {"name": "a/b"},
    "retry_on of another type": {"retry_on": "ValueError"},
    "give_up_on of another type": {"give_up_on": (ValueError, "x")},
    "payload_limit of another type": {"payload_limit": "big"},
}


@pytest.mark.parametrize("options", BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_a_bad_option_of_a_task_is_refused(options: dict[str, Any]) -> None:
    app = App("sqlite:///never-opened.db")

    with pytest.raises(UsageError) as raised:
        app.task(**options)(idle)

    assert "idle" not in str(raised.value), "it is the option's fault"
    app.task(idle)


BAD_USING: dict[str, dict[str, Any]] = {
    "unknown": {"colour": "red"},
    "priority too high": {"priority": 10},
    "priority as a flag": {"priority": True},
    "bad queue": {"queue": "a b"},
    "negative delay": {"delay": -5},
    "negative timedelta": {"delay": timedelta(days=-1)},
    "delay of nonsense": {"delay": "soon"},
    "delay of NaN": {"delay": float("nan")},
    "delay of ages": {"delay": 1e300},
    "delay of a flag": {"delay": True},
    "naive time": {"at": datetime(2026, 1, 1)},  # noqa: DTZ001 - on purpose
    "naive text": {"at": "2026-01-01T00:00:00"},
    "time of nonsense": {"at": "tomorrow"},
    "time of another type": {"at": 1.5},
    "time of a list": {"at": [2026]},
    "time beyond all": {"at": 2**70},
    "delay and time": {"delay": "1s", "at": datetime(2026, 1, 1, tzinfo=UTC)},
    "negative expires": {"expires": "-1s"},
    "once without a key": {"once": "1d"},
    "replace without a key": {"replace": True},
    "unknown when_running": {"key": "k", "when_running": "never"},
    "once of nonsense": {"key": "k", "once": "sometimes"},
    "empty key": {"key": ""},
    "key too long": {"key": "x" * 501},
    "key of another type": {"key": 7},
    "key with NUL": {"key": "a\0b"},
    "key with half a character": {"key": "\ud800"},
    "serial with NUL": {"serial": "a\0b"},
    "after of another type": {"after": "job"},
    "after of a flag": {"after": True},
}


@pytest.mark.parametrize("options", BAD_USING.values(), ids=BAD_USING.keys())
def test_a_bad_option_of_an_enqueue_is_refused_and_nothing_is_written(
    harness: Harness, options: dict[str, Any]
) -> None:
    greet = define(harness.app)

    with pytest.raises(UsageError) as raised:
        greet.using(**options).enqueue()

    assert len(str(raised.value)) < 500
    assert harness.app.jobs() == []


def test_a_predecessor_that_is_not_there_or_cancelled_is_refused(harness: Harness) -> None:
    greet = define(harness.app)
    gone = greet.enqueue()
    gone.cancel()

    with pytest.raises(NotFound):
        greet.using(after=4711).enqueue()
    with pytest.raises(Conflict):
        greet.using(after=gone).enqueue()

    assert len(harness.app.jobs()) == 1


@pytest.mark.parametrize(
    "url",
    [
        "",
        "work.db",
        "mysql://host/db",
        "sqlite://work.db",
        "sqlite:///",
        "sqlite:",
        "postgresql://ada:hunter2@[::1/db",
        "postgresql://ada:hunter2@host:port/db",
        "redis://:hunter2@localhost",
    ],
)
def test_a_bad_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        App(url or "://").jobs()

    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "maybe"},
        {"lease": "-1s"},
        {"lease": "soon"},
        {"lease": 0},
        {"grace": -1},
        {"concurrency": -1},
        {"threads": "ten"},
    ],
)
def test_a_bad_option_of_the_app_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        App("sqlite:///never-opened.db", **options)


def test_other_bad_calls_are_refused() -> None:
    app = App("sqlite:///never-opened.db")
    define(app)

    calls: list[Callable[[], Any]] = [
        lambda: app.queue("a b"),
        lambda: app.queue("mail", concurrency=0),
        lambda: Part("a b"),
        lambda: Exponential(factor=0.5),
        lambda: Exponential(jitter=2),
        lambda: define(app),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()


def test_a_task_of_a_part_that_nobody_included_says_so() -> None:
    part = Part("mail")

    @part.task
    def send() -> None: ...

    with pytest.raises(UsageError, match="no App has included"):
        send.enqueue()


# --- closed, and forked


def test_a_closed_app_says_so(url: str) -> None:
    app = App(url)
    greet = define(app)
    job = greet.enqueue()
    app.close()
    app.close()

    for call in (greet.enqueue, app.jobs, job.refresh, app.worker, app.connect, app.paused):
        with pytest.raises(UsageError, match="closed"):
            call()

    again = App(url)
    assert len(again.jobs()) == 1
    again.close()


def in_a_child(function: Callable[[], object]) -> str:
    """What the function raised in a forked process: the type's name and the message."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            answer = f"nothing: {function()!r}"
        except Error as error:
            answer = f"{type(error).__name__}: {error}"
        except BaseException:  # noqa: BLE001 - told to the parent
            answer = traceback.format_exc()
        os.write(writer, answer.encode()[:4000])
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    answer = os.read(reader, 4096).decode()
    os.close(reader)
    return answer


def test_an_app_that_was_used_before_a_fork_opens_again_in_the_child(url: str) -> None:
    app = App(url)
    greet = define(app)
    greet.enqueue()

    with working(app) as running:
        greet.enqueue("warm").wait("10s")
        calls: dict[str, Callable[[], object]] = {
            "enqueue": lambda: greet.using(key="child").enqueue("child").wait("10s").result,
            "read": lambda: len(app.jobs()) > 1,
            "connect": lambda: app.connect().close(),
            "transaction": lambda: app.transaction().__enter__().read("select 1 as one"),
            "now": lambda: app.now() > 0,
            "work": lambda: app.worker().idle,
        }
        answers = {name: in_a_child(call) for name, call in calls.items()}
        closing = in_a_child(app.close)
        after = greet.enqueue("after").wait("10s")

    assert answers == {
        "enqueue": "nothing: 'child'",
        "read": "nothing: True",
        "connect": "nothing: None",
        "transaction": "nothing: [Row(one=1)]",
        "now": "nothing: True",
        "work": "nothing: True",
    }
    assert closing == "nothing: None"
    assert after.result == "after"
    assert running.error is None
    assert not any(finding.violations for finding in app.admin.verify())
    app.close()


def test_a_child_works_after_its_parent_has_closed(url: str) -> None:
    """Without locks of its own the child's log would be removed under it."""
    app = App(url)
    greet = define(app)
    greet.enqueue("parent")
    asked, ask = os.pipe()
    opened, tell = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            app.jobs()
            os.write(tell, b"x")
            os.read(asked, 1)
            for number in range(20):
                greet.enqueue(str(number))
        except BaseException:  # noqa: BLE001 - its end tells the parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    os.close(tell)
    os.read(opened, 1)
    app.close()
    os.write(ask, b"x")

    assert os.waitpid(pid, 0)[1] == 0
    again = App(url)
    assert len(again.jobs()) == 21
    again.close()
    for each in (asked, ask, opened):
        os.close(each)


def test_a_child_takes_locks_of_its_own(tmp_path: Path) -> None:
    """Beside a connection of its parent's, SQLite would believe to have them."""
    path = tmp_path / "work.db"
    app = App(f"sqlite:///{path}")
    define(app).enqueue()

    def locked() -> bool:
        app.jobs()
        mine = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        inode = f":{path.stat().st_ino}"
        return any(words[4] == str(os.getpid()) and words[5].endswith(inode) for words in mine)

    assert in_a_child(locked) == "nothing: True"
    app.close()


def test_a_fork_inside_a_transaction_leaves_it_to_the_parent(url: str) -> None:
    app = App(url)
    greet = define(app)
    greet.enqueue()

    def leave() -> None:
        block.__exit__(None, None, None)

    block = app.transaction()
    tx = block.__enter__()
    tx.enqueue(greet, "parent")
    answer = in_a_child(leave)
    block.__exit__(None, None, None)

    assert answer.startswith("UsageError: this was begun before a fork"), answer
    assert len(app.jobs()) == 2
    app.close()


def test_a_file_that_was_in_use_at_the_fork_is_refused_in_the_child(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")
    greet = define(app)
    greet.enqueue()
    own = app.connect()

    answers = [in_a_child(greet.enqueue), in_a_child(App(app.url).jobs)]

    for answer in answers:
        assert answer.startswith("UsageError: "), answer
        assert "was open when this process was forked" in answer
    own.close()
    assert in_a_child(lambda: len(app.jobs())) == "nothing: 1"
    app.close()


def test_a_child_may_have_an_app_of_its_own(url: str) -> None:
    app = App(url)
    greet = define(app)
    greet.enqueue()

    def own() -> int:
        mine = App(url)
        define(mine).enqueue("child")
        return len(mine.jobs())

    answer = in_a_child(own)

    assert answer == "nothing: 2"
    assert len(app.jobs()) == 2
    app.close()
