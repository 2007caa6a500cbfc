"""The other side: an HTTP server on loopback that keeps a ledger of what really arrived.

    with Receiver() as there:
        post(there.url, {"text": "hi"}, key="k")
        assert there.delivered == [{"text": "hi"}]

`there.then("drop")` takes effect and loses the reply; `there.then(503)` refuses; `there.then("hold")`
takes effect and does not answer until `there.release()`. Each is for one request. With `keys=True` a
key that is known is answered and delivers nothing.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Refused(Exception):
    """The other side said no."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the receiver answered {status}")
        self.status = status


class Receiver:
    """Counts requests, and separately what they brought about."""

    def __init__(self, *, keys: bool = False) -> None:
        self._keys = keys
        self._plans: deque[str | int] = deque()
        self._known: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._held = threading.Event()
        self.holding = threading.Event()
        self.delivered: list[Any] = []
        self.requests: list[str | None] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._post(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(
            target=lambda: self._server.serve_forever(poll_interval=0.01), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()

    def then(self, *plans: str | int) -> None:
        self._plans.extend(plans)

    def release(self) -> None:
        self._held.set()

    def _post(self, request: Any) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        key = request.headers["Idempotency-Key"]
        with self._lock:
            self.requests.append(key)
            plan = self._plans.popleft() if self._plans else 200
            if plan in (200, "drop", "hold") and not (self._keys and key in self._known):
                self.delivered.append(body)
                if key is not None:
                    self._known[key] = body
        if plan == "drop":
            request.close_connection = True
            request.connection.close()
            return
        if plan == "hold":
            self.holding.set()
            self._held.wait(20)
        request.send_response(plan if isinstance(plan, int) else 200)
        request.send_header("Content-Length", "0")
        request.end_headers()


def post(url: str, body: Any, key: str | None = None) -> None:
    """What a sender does; a lost reply is a ConnectionError, a refusal is `Refused`."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Idempotency-Key"] = key
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            answer.read()
    except urllib.error.HTTPError as error:
        raise Refused(error.code) from None
