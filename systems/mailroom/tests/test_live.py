"""Open pages change by themselves: as many as are open, with what belongs there, also after a restart."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
import uvicorn
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from duework import App
from duework.web.tokens import Tokens
from systems.mailroom.mail import NewMessage
from systems.mailroom.posting import post
from systems.mailroom.tests.conftest import Room

PAGE = "/live?page=%2Fmailroom%2F"


class Site:
    """The pages of an App on a real server, and a browser that is signed in."""

    def __init__(self, host: str, cookie: str) -> None:
        self.host, self.cookie = host, cookie

    @contextmanager
    def looking(self, origin: str = "") -> Iterator[ClientConnection]:
        headers = {"origin": origin or f"http://{self.host}", "cookie": self.cookie}
        with connect(f"ws://{self.host}{PAGE}", additional_headers=headers) as opened:
            yield opened


@contextmanager
def served(app: App, cookie: str = "") -> Iterator[Site]:
    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app.asgi(), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Site(host, cookie or signed_in(app, host))
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def signed_in(app: App, host: str) -> str:
    secret = Tokens(app).add("operator", "operate", None)
    headers = {"origin": f"http://{host}"}
    answer = httpx2.post(f"http://{host}/login", data={"token": secret}, headers=headers)
    return "; ".join(f"{name}={value}" for name, value in answer.cookies.items())


def one(number: int) -> NewMessage:
    return NewMessage(to="ada@demo.example", subject=f"Order <{number}>", text="Hi")


def until(page: ClientConnection, words: str) -> str:
    """The first push that says so."""
    while words not in (text := str(page.recv(timeout=20))):
        continue
    return text


@pytest.mark.rows("002-20", "002-23", "002-24", "002-25")
def test_every_open_page_is_told_of_every_move_as_html(room: Room) -> None:
    with served(room.app) as site, site.looking() as mine, site.looking() as yours:
        with site.looking():
            pass  # one that has left is nobody's trouble
        message = post(room.app, "acme", "order-1", one(1))
        for page in (mine, yours):
            pushed = until(page, f"msg-{message.id}")
            assert "<hx-partial" in pushed
            assert "Order &lt;1&gt;" in pushed
        room.h.drain()
        until(mine, 'id="lane-sending"><li')
        room.h.advance("10s")
        for page in (mine, yours):
            until(page, "Nothing is on its way")


@pytest.mark.rows("002-21", "002-26", "002-X3")
def test_a_page_that_comes_back_after_a_restart_gets_what_it_missed(room: Room) -> None:
    with served(room.app) as site, site.looking() as page:
        post(room.app, "acme", "order-1", one(1))
        until(page, "Order &lt;1&gt;")
    post(room.app, "acme", "order-2", one(2))
    with served(room.app, site.cookie) as again, again.looking() as page:
        until(page, "Order &lt;2&gt;")


@pytest.mark.rows("002-22")
def test_the_address_of_pushes_answers_to_websockets_of_ours_alone(room: Room) -> None:
    with served(room.app) as site:
        answer = httpx2.get(f"http://{site.host}{PAGE}", headers={"cookie": site.cookie})
        assert answer.status_code == 404
        with pytest.raises(InvalidStatus), site.looking("http://elsewhere.example"):
            pass
