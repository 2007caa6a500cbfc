"""The server of the pages, for `duework web` and `duework run --web`: bound first, then announced.

Beside a worker it has a thread and an event loop of its own: a task that blocks the worker's loop does not
take away the page that shows it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duework.db.urls import database_file
from duework.errors import UsageError
from duework.web.tokens import FIRST, Tokens

if TYPE_CHECKING:
    from duework.app import App

PORT = 8377
DEFAULT = f"127.0.0.1:{PORT}"
# What is answered within this many seconds after a stop is answered whole.
GRACE_SECONDS = 5
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+):([0-9]{1,5})")
_LOG = logging.getLogger("duework")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and under which names."""

    host: str = "127.0.0.1"
    port: int = PORT
    public_names: Sequence[str] = ()
    token_file: str | None = None


def parse_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8377`, `[::1]:0`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[2]) > 65535:  # noqa: PLR2004 - the last port
        raise UsageError(f"an address is HOST:PORT, such as {DEFAULT}: not {text!r}")
    return match[1].strip("[]"), int(match[2])


class PageServer:
    """A server that is bound and has said where; `run` answers until `stop`."""

    def __init__(self, app: App, address: Address, say: Callable[[str], Any]) -> None:
        names = _names(address.public_names)
        if not _is_loopback(address.host) and not names:
            message = (
                f"to listen at {address.host}, say which name it has there:"
                " --public-name work.example.com"
            )
            raise UsageError(message)
        self._server = _server(app.asgi(public_names=names))
        made = Tokens(app)
        file = Path(address.token_file) if address.token_file else _token_file(app)
        if made.make_first(file):
            say(f"The token {FIRST!r} (scope admin) is in {file}")
        self._listening = _listen(address.host, address.port)
        port = self._listening.getsockname()[1]
        shown = f"https://{names[0]}" if names else f"http://{_bracketed(address.host)}:{port}"
        say(f"Sign in, once and within 15 minutes: {shown}/login?code={made.link()}")

    def run(self) -> None:
        """Answer; in the main thread until SIGTERM or Ctrl-C, else until `stop`."""
        try:
            self._server.run(sockets=[self._listening])
        finally:
            self._listening.close()

    def stop(self) -> None:
        """Take no more requests; safe from any thread."""
        self._server.should_exit = True


@contextmanager
def beside(app: App, address: Address, say: Callable[[str], Any]) -> Iterator[PageServer]:
    """Serve in a thread while the block runs."""
    server = PageServer(app, address, say)

    def run() -> None:
        try:
            server.run()
        except OSError:
            _LOG.exception("the pages are no longer served")

    thread = threading.Thread(target=run, name="duework-web", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(GRACE_SECONDS + 5)


def _server(pages: Any) -> Any:
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        message = f"to serve the pages needs {error.name}: pip install 'duework[web]'"
        raise UsageError(message) from error
    config = uvicorn.Config(
        pages,
        log_level="warning",
        limit_concurrency=500,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=GRACE_SECONDS,
        # Pages send nothing over their sockets.
        ws_max_size=64 * 1024,
        server_header=False,
        proxy_headers=False,
    )
    return uvicorn.Server(config)


def _names(given: Sequence[str]) -> list[str]:
    for name in given:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} is no name of a host: write work.example.com, without a port"
            )
    return list(given)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    """Bound before anything is printed: a link to a server that could not start helps nobody."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, number)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        # From here on whoever opens the link waits, and is not refused.
        made.listen(128)
    except OSError as error:
        message = f"cannot listen at {_bracketed(host)}:{port}: {error.strerror or error}"
        raise UsageError(message) from error
    return made


def _token_file(app: App) -> Path:
    """Beside a database that is a file; else in the folder for such things, of this user alone."""
    if (file := database_file(app.url)) is not None:
        return Path(f"{file}.token")
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or Path.home() / ".duework") / "duework"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make {folder} for the first token: {error.strerror}; name a --token-file"
        raise UsageError(message) from error
    return folder / f"token-{hashlib.sha256(app.url.encode()).hexdigest()[:12]}"
