"""Live pages, by a real server on loopback and real WebSockets: who is told what, when, and how often."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from duework import App, Part, Person, Template
from duework.web.live import hub, pages, viewer
from duework.web.regions import Regions
from duework.web.tokens import Tokens, Who
from tests.support.working import eventually
from tests.web.conftest import Site, task, work
from tests.web.shapes import Shapes

SECONDS = 20
SMALL = 64 * 1024
TABLE = "create table board (id integer primary key, words text not null)"


class Server:
    """The pages of an App, served in a thread."""

    def __init__(self, app: App, port: int = 0, **options: Any) -> None:
        self.listening = socket.create_server(("127.0.0.1", port))
        self.host = f"127.0.0.1:{self.listening.getsockname()[1]}"
        config = uvicorn.Config(
            app.asgi(**options), log_level="warning", timeout_graceful_shutdown=5
        )
        self.server = uvicorn.Server(config)
        run = {"sockets": [self.listening]}
        self.thread = threading.Thread(target=self.server.run, kwargs=run, daemon=True)
        self.thread.start()
        eventually(lambda: self.server.started)

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        self.listening.close()

    def open(self, page: str, session: str = "", **options: Any) -> ClientConnection:
        """A browser's socket of a page, with the browser's cookie and from our own page."""
        headers = {"cookie": f"duework={session}", **options.pop("headers", {})}
        origin = options.pop("origin", f"http://{self.host}")
        url = f"ws://{self.host}{options.pop('prefix', '')}/live?page={page}"
        return connect(url, additional_headers=headers, origin=origin, max_size=None, **options)


@contextlib.contextmanager
def served(app: App, **options: Any) -> Iterator[Server]:
    server = Server(app, **options)
    try:
        yield server
    finally:
        server.stop()


def session_of(app: App, scope: str = "read") -> str:
    tokens = Tokens(app)
    return tokens.open_session(tokens.add(f"{scope}-{len(tokens.all())}", scope))


def regions(message: str | bytes) -> dict[str, str]:
    found = re.findall(
        r'<hx-partial hx-target="#([\w-]+)" hx-swap="outerMorph">(.*?)</hx-partial>',
        str(message),
        re.DOTALL,
    )
    return dict(found)


def shown(connection: ClientConnection, wanted: str, within: float = SECONDS) -> dict[str, str]:
    """All regions as they are once this text is among them."""
    found: dict[str, str] = {}
    deadline = time.monotonic() + within
    while not any(wanted in text for text in found.values()):
        found |= regions(connection.recv(deadline - time.monotonic()))
    return found


def first(connection: ClientConnection) -> dict[str, str]:
    """What it shows at first: one message has all regions."""
    return regions(connection.recv(SECONDS))


def settled(connection: ClientConnection, quiet: float = 1.5) -> dict[str, str]:
    """What it shows once nothing comes any more."""
    found: dict[str, str] = {}
    while True:
        try:
            found |= regions(connection.recv(quiet))
        except TimeoutError:
            return found


def narrow(server: Server) -> socket.socket:
    """A way to the server on which little can be under way, whatever the machine's buffers are."""
    server.listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    made.connect(("127.0.0.1", server.port))
    return made


def code_of(connection: ClientConnection) -> int:
    """With which code it is closed; 1006 stands for none."""
    try:
        while True:
            connection.recv(SECONDS)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else 1006


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions take turns ten times as often: for tests of what is shown, not of how often."""
    interval = Regions.interval

    def sooner(self: Regions, identifier: str) -> float | None:
        seconds = interval(self, identifier)
        return seconds and seconds / 10

    monkeypatch.setattr(Regions, "interval", sooner)
    monkeypatch.setattr(Regions, "least", 0.1)


@pytest.mark.usefixtures("hurried")
def test_a_page_gets_all_its_regions_at_first_and_then_what_changed(site: Site) -> None:
    with served(site.app) as server, server.open("/", session_of(site.app)) as page:
        found = {"verdict", "attention", "dueline", "tiles", "queues", "nav-needs", "zone"}
        seen = set(first(page))
        assert seen >= found
        assert {name for name in seen - found if not name.startswith("nav-")} == set()
        task(site.app, "greet").using(delay="1h").enqueue("ada")
        assert ">greet</a>" in shown(page, ">greet</a>")["queues"]
        task(site.app, "greet").using(delay="1h").enqueue("bob")
        changed = shown(page, ">2</a>")
        assert "attention" not in changed, "it is as it was"


@pytest.mark.usefixtures("hurried")
def test_a_page_of_a_shape_changes_by_itself(site: Site) -> None:
    shapes = Shapes(site.app)
    shapes.plan()
    batch = site.app.batch(shapes.check.using(delay="1h"), range(3), name="three")
    with served(site.app) as server:
        session = session_of(site.app)
        with (
            server.open("/schedules/one&key=hourly", session) as schedule,
            server.open(f"/batches/{batch.id}", session) as members,
        ):
            assert "detail" in first(schedule)
            assert "0 of 3" in first(members)["head"]

            site.app.get_schedule("hourly").pause()
            assert "It is <b>paused</b>" in shown(schedule, "It is <b>paused</b>")["head"]
            batch.cancel("no need")
            assert "were cancelled" in shown(members, "were cancelled")["head"]


@pytest.mark.usefixtures("hurried")
def test_a_commit_of_another_process_changes_the_page(site: Site, emptied: str) -> None:
    program = "import sys; from duework import App; App(sys.argv[1]).pause('mail')"
    task(site.app, "fails").enqueue("x")
    with served(site.app) as server, server.open("/", session_of(site.app)) as page:
        first(page)
        words = [sys.executable, "-c", program, emptied]
        subprocess.run(words, check=True, timeout=60)
        assert ">paused<" in shown(page, ">paused<")["queues"]


def test_two_hundred_viewers_are_served_by_one_rendering(
    site: Site, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderings: list[str] = []
    cut = pages.cut

    def counting(html: str, wanted: Any) -> dict[str, str]:
        renderings.append(html)
        return cut(html, wanted)

    monkeypatch.setattr(pages, "cut", counting)
    session = session_of(site.app)
    with served(site.app) as server, contextlib.ExitStack() as stack:
        opened = [stack.enter_context(server.open("/", session)) for _ in range(200)]
        for page in opened:
            first(page)
        settled(opened[0])
        renderings.clear()
        task(site.app, "greet").using(delay="1h").enqueue("ada")
        for page in opened:
            assert ">greet</a>" in shown(page, ">greet</a>")["queues"]
        settled(opened[0])
        # A notification of PostgreSQL tells of the same commit once more.
        assert 1 <= len(renderings) <= (1 if kind == "sqlite" else 2)


def test_a_page_gets_at_most_five_messages_a_second(board: Board) -> None:
    with served(board.app) as server, server.open("/board/7", session_of(board.app)) as page:
        first(page)
        stop = time.monotonic() + 2
        number = 0
        while time.monotonic() < stop:
            number += 1
            board.write(7, f"number {number}")
        count = 0
        last = {"page": ""}
        while f"number {number}<" not in last["page"]:
            last = regions(page.recv(SECONDS))
            count += 1
        assert 2 <= count <= 2 * 5 + 2


def test_what_has_not_changed_is_not_sent(board: Board) -> None:
    with served(board.app) as server, server.open("/board/7", session_of(board.app)) as page:
        assert set(first(page)) == {"page"}
        with board.app.transaction() as tx:
            tx.touch("board:7")
        with pytest.raises(TimeoutError):
            page.recv(1)
        board.write(7, "news")
        assert "news" in shown(page, "news")["page"]


def test_a_page_of_a_part_is_rendered_for_its_own_topics_only(board: Board) -> None:
    session = session_of(board.app)
    with served(board.app) as server, server.open("/board/7", session) as page:
        settled(page)
        before = len(board.rendered)
        board.write(8, "not for seven")
        if board.app.wiring.engine.database.kind == "sqlite":
            # A block has a connection of its own: that may be taken for another process.
            settled(page)
            before = len(board.rendered)
        board.write(7, "for seven")
        shown(page, "for seven")
        assert set(board.rendered[before:]) == {7}


def test_nobody_is_sent_what_was_rendered_for_another_name(board: Board) -> None:
    tokens = Tokens(board.app)
    sessions = {name: tokens.open_session(tokens.add(name, "read")) for name in ("ada", "eve")}
    with served(board.app) as server, contextlib.ExitStack() as stack:
        opened = {
            name: stack.enter_context(server.open("/board/7", session))
            for name, session in sessions.items()
        }
        for page in opened.values():
            first(page)
        board.write(7, "for both")
        for name, page in opened.items():
            text = shown(page, "for both")["page"]
            other = "eve" if name == "ada" else "ada"
            assert f"seen by {name}" in text
            assert f"seen by {other}" not in text
            assert Who(name, "read", sessions[name]).form_key in text
            assert pages.MARKER not in text


def test_a_page_for_people_shows_each_their_own(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SESSIONS_SECONDS", 0.2)
    people = board.part.people
    sessions: dict[str, str] = {}
    for email in ("ada@board.test", "eve@board.test"):
        code = people.entry(email)
        session = people.enter(code)
        assert session is not None
        sessions[email] = session
    with served(board.app) as server, contextlib.ExitStack() as stack:
        opened = {
            email: stack.enter_context(
                server.open("/board/mine", headers={"cookie": f"duework-board={session}"})
            )
            for email, session in sessions.items()
        }
        for email, page in opened.items():
            text = first(page)["page"]
            assert f"<p>{email}</p>" in text
            # With the sign: "ada" alone may stand in a key of hexadecimal digits.
            assert ("eve@" if "ada" in email else "ada@") not in text
            assert re.findall(r'name="form" value="(\w+)"', text) == [
                Who("", "read", sessions[email]).form_key
            ]
        people.leave(sessions["ada@board.test"])
        assert code_of(opened["ada@board.test"]) == 4401
        settled(opened["eve@board.test"], 0.5)


def test_forms_are_those_of_the_session_that_looks(site: Site) -> None:
    sessions = [session_of(site.app, "operate"), session_of(site.app, "operate")]
    site.app.pause("mail")
    task(site.app, "fails").enqueue("x")
    with served(site.app) as server, contextlib.ExitStack() as stack:
        for session in sessions:
            page = stack.enter_context(server.open("/", session))
            text = "".join(first(page).values())
            assert f'name="form" value="{Who("", "operate", session).form_key}"' in text
            assert pages.MARKER not in text
            assert len(set(re.findall(r'name="form" value="(\w+)"', text))) == 1


def test_a_scope_sees_what_it_may_do(site: Site) -> None:
    site.app.pause("mail")
    task(site.app, "fails").enqueue("x")
    with (
        served(site.app) as server,
        server.open("/", session_of(site.app, "read")) as reader,
        server.open("/", session_of(site.app, "operate")) as operator,
    ):
        assert "needs the scope operate" in first(reader)["queues"]
        assert "needs the scope operate" not in first(operator)["queues"]


@pytest.mark.usefixtures("hurried")
def test_rows_of_a_list_change_in_place_and_newer_ones_are_counted(site: Site) -> None:
    greet = task(site.app, "greet")
    old = [greet.enqueue(f"n{number}").id for number in range(3)]
    rows = ".".join(str(each) for each in old)
    with (
        served(site.app) as server,
        server.open(f"/jobs&task=greet&rows={rows}", session_of(site.app)) as page,
    ):
        listed = first(page)
        assert {name for name in listed if name.startswith("job-")} == {f"job-{id_}" for id_ in old}
        assert "st-ready" in listed[f"job-{old[0]}"]
        greet.using(delay="1h").enqueue("later")
        assert "1 newer" in shown(page, "newer")["newer"]
        work(site.app)
        changed = shown(page, "st-done")
        assert not [
            name for name in changed if name.startswith("job-") and int(name[4:]) not in old
        ]


def test_the_page_itself_names_where_its_changes_come_from(site: Site) -> None:
    job = task(site.app, "greet").enqueue("ada").id
    browser = site.browser("read")
    assert 'hx-ws:connect="/live?page=%2F"' in browser.get("/").text
    listed = browser.get("/jobs?task=greet").text
    assert f'hx-ws:connect="/live?page=%2Fjobs&amp;task=greet&amp;rows={job}"' in listed
    assert f"/live?page=%2Fjobs%2F{job}" in browser.get(f"/jobs/{job}").text
    assert "hx-ws" not in browser.get("/menu").text.replace("hx-ws.min", "")


@pytest.mark.usefixtures("hurried")
def test_the_page_of_a_job_follows_it(site: Site) -> None:
    job = task(site.app, "greet").enqueue("ada").id
    with served(site.app) as server, server.open(f"/jobs/{job}", session_of(site.app)) as page:
        assert {"head", "why", "detail"} <= set(first(page))
        work(site.app)
        assert "hello ada" in shown(page, "hello ada")["detail"]


@pytest.mark.usefixtures("hurried")
def test_a_page_that_is_opened_is_not_overwritten_by_what_another_browser_was_shown_before(
    site: Site,
) -> None:
    job = task(site.app, "greet").using(delay="1h").enqueue("ada")
    writer = site.app.wiring.engine.writer
    session, words = session_of(site.app), "could not be written when last tried: the disk is full"
    with served(site.app) as server, server.open(f"/jobs/{job.id}", session) as before:
        assert words not in first(before)["why"]
        # No commit tells of it.
        writer.parked = "the disk is full"
        try:
            with server.open(f"/jobs/{job.id}", session) as opened:
                assert words in first(opened)["why"]
            assert words in shown(before, words)["why"]
        finally:
            writer.parked = None


def test_a_socket_from_elsewhere_is_refused(site: Site) -> None:
    session = session_of(site.app)
    with served(site.app) as server:
        host = server.host
        for origin in (None, "null", "http://evil.test", f"http://{host}.evil.test", "http://["):
            with pytest.raises(InvalidStatus) as refused, server.open("/", session, origin=origin):
                pass
            assert refused.value.response.status_code == 403
        for page, headers in (("/", {"host": "evil.test"}), ("/menu", {}), ("/nowhere", {})):
            with pytest.raises(InvalidStatus), server.open(page, session, headers=headers):
                pass


def test_without_a_session_nothing_is_shown(site: Site, board: Board) -> None:
    tokens = Tokens(site.app)
    expired = tokens.open_session(tokens.add("short", "read", "1s"))
    eventually(lambda: tokens.who(expired, "session") == "expired")
    with served(site.app) as server:
        for session in ("", "dw_wrong", expired):
            with server.open("/", session) as page:
                assert code_of(page) == 4401
    with served(board.app) as server:
        with server.open("/board/7") as page:
            assert code_of(page) == 4401
        with server.open("/board/mine", session_of(board.app)) as page:
            assert code_of(page) == 4401, "a page for people is not for operators"


@pytest.mark.usefixtures("hurried")
def test_a_session_that_ends_ends_its_page(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "SESSIONS_SECONDS", 0.2)
    session, other = session_of(site.app), session_of(site.app)
    with (
        served(site.app) as server,
        server.open("/", session) as page,
        server.open("/", other) as stays,
    ):
        first(page)
        Tokens(site.app).end_session(session)
        assert code_of(page) == 4401
        task(site.app, "greet").using(delay="1h").enqueue("ada")
        assert shown(stays, ">greet</a>")


def test_a_program_looks_with_its_token(site: Site) -> None:
    header = {"authorization": f"Bearer {site.token('read')}"}
    with served(site.app) as server, server.open("/", headers=header, origin=None) as page:
        assert "tiles" in first(page)


def test_the_pages_are_live_below_a_prefix(site: Site) -> None:
    session = session_of(site.app)
    with (
        served(site.app, prefix="/work") as server,
        server.open("/", session, prefix="/work") as page,
    ):
        assert 'href="/work/jobs' in "".join(first(page).values())


@pytest.mark.usefixtures("hurried")
def test_after_a_restart_a_page_gets_all_regions_again(site: Site) -> None:
    session = session_of(site.app)
    before = Server(site.app)
    with before.open("/", session) as page:
        first(page)
        before.stop()
        assert code_of(page) == 1012
    task(site.app, "greet").using(delay="1h").enqueue("ada")
    with served(site.app, port=before.port) as server, server.open("/", session) as page:
        found = shown(page, ">greet</a>")
        assert {"verdict", "attention", "tiles", "queues"} <= set(found)


def test_a_slow_browser_is_let_go_and_others_go_on(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer, "SLOW_SECONDS", 0.5)
    session = session_of(board.app)
    with (
        served(board.app) as server,
        narrow(server) as socket_,
        server.open("/board/9", session, compression=None, max_queue=1, sock=socket_) as slow,
        server.open("/board/9", session) as quick,
    ):
        first(quick)
        for number in range(8):
            board.write(9, f"{number} " + "x" * 1_000_000)
            shown(quick, f"{number} xxx")
        # It gets the reason if it takes anything at all; a browser comes back after either.
        assert code_of(slow) in {1013, 1006}


def test_an_open_page_of_an_idle_engine_causes_no_statement(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duework.db.postgres.tx import PostgresTx
    from duework.db.sqlite.tx import SqliteTx

    seen: list[str] = []
    session = session_of(site.app)
    with (
        served(site.app) as server,
        server.open("/paces", session) as other,
        server.open("/", session) as page,
    ):
        settled(page)
        settled(other, 0.1)
        for tx in (SqliteTx, PostgresTx):
            begin = tx.__init__

            def counted(self: Any, *args: Any, _begin: Any = begin, **more: Any) -> None:
                seen.append(type(self).__name__)
                _begin(self, *args, **more)

            monkeypatch.setattr(tx, "__init__", counted)
        with pytest.raises(TimeoutError):
            page.recv(3)
        assert seen == []
        site.app.status()
        assert seen, "it would have been counted"


def test_nothing_is_left_when_nobody_looks(site: Site) -> None:
    with served(site.app) as server:
        with server.open("/", session_of(site.app)) as page:
            first(page)
            assert site.app.wiring.engine.writer.watch is not None
        feed: Any = site.app.wiring.engine.feed
        eventually(lambda: not feed._listeners)  # noqa: SLF001 - how many there are


def test_the_files_of_others_are_those_that_are_noted() -> None:
    folder = resources.files("duework.web") / "static" / "vendor"
    noted = dict(
        re.findall(r"`([\w.-]+\.js)` \| `[^`]+` \| `(\w{64})`", (folder / "README.md").read_text())
    )
    assert noted.keys() == {"htmx.min.js", "hx-ws.min.js"}
    for name, sha in noted.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha


def test_htmx_and_its_extension_are_loaded_at_once_and_in_order(site: Site) -> None:
    head = site.browser("read").get("/").text.partition("</head>")[0]
    scripts = re.findall(r"<script src=\"/static/([\w.-]+?)\.[0-9a-f]{12}\.js\"( defer)?>", head)
    assert scripts == [("htmx.min", ""), ("hx-ws.min", ""), ("ui", " defer")]


# --- a part with a page


@dataclass
class Board:
    app: App
    part: Part
    # The boards that were rendered, in order.
    rendered: list[int]

    def write(self, number: int, words: str) -> None:
        with self.app.transaction() as tx:
            tx.write("delete from board where id = :id", id=number)
            tx.write("insert into board (id, words) values (:id, :words)", id=number, words=words)
            tx.touch(f"board:{number}")


@pytest.fixture
def board(emptied: str, tmp_path: Path) -> Iterator[Board]:
    """A part with a page for each board, and one for people."""
    app, rendered = App(emptied), []
    part = Part("board")
    (tmp_path / "board.html").write_text(
        '{% extends "base.html" %}{% from "components.html" import csrf with context %}'
        "{% block main %}<p>{{ words }}</p><p>seen by {{ who.name if who else person.id }}</p>"
        "<form>{{ csrf() }}</form>{% endblock %}"
    )
    part.contents.templates = tmp_path

    @part.sign_in
    def send(email: str, url: str) -> None:
        """No test asks for a link."""

    @part.page("/mine", auth="person", live=("mine",))
    def mine(person: Person) -> Template:
        return Template("board.html", words=person.email)

    @part.page("/{id}", live=("board:{id}",))
    def one(id: int) -> Template:  # noqa: A002 - the path's own word
        rendered.append(id)
        rows = app.read("select words from board where id = :id", id=id)
        return Template("board.html", words=rows[0].words if rows else "nothing")

    app.include(part)
    with app.transaction() as tx:
        tx.write(TABLE)
    yield Board(app, part, rendered)
    app.close()
