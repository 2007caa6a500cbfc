"""The outside world at its worst: it throttles, loses a reply, redirects inside; news for it is signed."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from duework import App, Retry, Run, http, webhooks
from duework.testing import Harness

app = App()
SECRET = webhooks.new_secret()


class Upstream(BaseHTTPRequestHandler):
    """One who answers so differently that a client has to know what it may conclude."""

    protocol_version = "HTTP/1.1"
    calls: dict[str, int] = {}  # noqa: RUF012 - of all its requests

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.calls[self.path] = self.calls.get(self.path, 0) + 1
        match self.path:
            case "/busy" if self.calls[self.path] == 1:
                self.answer(429, "retry-after", "90")
            case "/lost":
                # What was asked for is done; the answer never arrives.
                self.close_connection = True
            case "/moved":
                self.answer(302, "location", "http://169.254.169.254/latest/meta-data")
            case "/hooks":
                id_ = webhooks.verify(SECRET, dict(self.headers), body, now=app.now())
                print(f"signed and verified: {id_} {json.loads(body)}")
                self.answer(204)
            case _:
                self.answer(204)

    def answer(self, status: int, *header: str) -> None:
        self.send_response(status)
        if header:
            self.send_header(*header)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing: the example says what happens."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
ADDRESS = f"http://127.0.0.1:{server.server_port}"
api = http.Client(ADDRESS, timeout="5s")
# An operator who runs receivers of his own says so; otherwise this address is refused, too.
hooks = http.Client(guard=http.Guard(allow=["127.0.0.1"]))
public = http.Client(guard=http.Guard())


@app.task
async def busy(run: Run) -> None:
    try:
        await api.post("/busy", json={})
    except http.TooMany as error:
        print(f"throttled: {error.response.status}, again in {error.after_ms // 1000} s")
        raise
    print(f"then it went well, in attempt {run.attempt}")


@app.task
async def lost() -> None:
    try:
        await api.post("/lost", json={})
    except http.LOST as error:
        print(f"unsure: {error}")
    except http.UNSENT as error:
        raise Retry(why="it had no effect") from error


@app.task
async def send(url: str) -> None:
    try:
        await public.post(url, json={})
    except http.Refused as error:
        print(f"refused: {error}")


@app.task
async def moved() -> None:
    try:
        await hooks.post(f"{ADDRESS}/moved", json={})
    except http.Refused as error:
        print(f"refused: {error}".replace(ADDRESS, "the receiver"))


@app.task
async def notify(run: Run, order: int) -> None:
    body = json.dumps({"order": order})
    token = run.secret("hooks:7")
    headers = webhooks.sign(token, f"order-{order}", body, now=run.now)
    (await hooks.post(f"{ADDRESS}/hooks", content=body, headers=headers)).check()


def main() -> None:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Harness(app) as h:
        app.secrets.seal("hooks:7", SECRET)
        for job in (busy, lost, moved):
            job.enqueue()
            h.drain()
        for url in ("http://169.254.169.254/latest", "http://0x7f.1/", f"{ADDRESS}/hooks"):
            send.enqueue(url)
        notify.enqueue(7)
        h.advance("2m")
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
