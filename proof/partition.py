"""A worker is cut off from PostgreSQL, by a network namespace whose link goes down.

One worker lives in a namespace of its own and reaches the server over a pair of virtual interfaces; the
other one is beside the server. When the link is down no packet goes through and nobody is told, as with a
cable that was pulled. Namespaces need root and `ip`; without them a proxy drops the packets instead, and
the notes say so.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from duework.db.postgres.connect import SERVER
from proof import tasks
from proof.section import Result, Scale, Section
from proof.storms import BACKLOG, LEASE_MS, SLOTS, Storm, counted, storm, until
from tests.support.postgres import Server, server
from tests.support.proxy import proxy

ROUNDS = {"short": 1, "full": 30}
DRAINED_WITHIN = 90.0
KEEPALIVE = {
    socket.TCP_KEEPIDLE: "tcp_keepalives_idle",
    socket.TCP_KEEPINTVL: "tcp_keepalives_interval",
    socket.TCP_KEEPCNT: "tcp_keepalives_count",
}
PLANT = "a settle does not look at the fence"


@dataclass(frozen=True)
class Link:
    """How a worker beyond the link is started, how it reaches the server, and the switch."""

    kind: str
    prefix: tuple[str, ...]
    url: Callable[[str], str]
    down: Callable[[], None]
    up: Callable[[], None]


class Forwarder:
    """Passes on what comes in at one end of the link; the server itself listens on loopback only.

    It stands for the server's own end of the connection, and has the settings that we give that.
    """

    def __init__(self, address: str, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server((address, 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                try:
                    theirs = socket.create_connection(self._target)
                except OSError:
                    ours.close()
                    continue
                self._sockets += [ours, theirs]
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, setting in KEEPALIVE.items():
                    ours.setsockopt(socket.IPPROTO_TCP, option, int(SERVER[setting]))
                ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)
                for pair in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()

    def close(self) -> None:
        for each in [self._listener, *self._sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for side in (source, target):
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


def _ip(*words: str) -> None:
    command = [shutil.which("ip") or "ip", *words]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def _namespace(own: Server) -> Iterator[Link]:
    name = f"proof{os.getpid() % 10_000}"
    here, there, net = f"{name}a", f"{name}b", f"10.213.{os.getpid() % 250}"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        _ip("addr", "add", f"{net}.1/30", "dev", here)
        _ip("link", "set", here, "up")
        for words in (("addr", "add", f"{net}.2/30", "dev", there), ("link", "set", there, "up")):
            _ip("-n", name, *words)
        _ip("-n", name, "link", "set", "lo", "up")
        server_at = urlsplit(own.dsn)
        forwarder = Forwarder(f"{net}.1", (server_at.hostname or "", server_at.port or 5432))
        credentials = server_at.netloc.rpartition("@")[0]
        place = f"{credentials}@{net}.1:{forwarder.port}"
        try:
            yield Link(
                "a network namespace",
                (shutil.which("ip") or "ip", "netns", "exec", name),
                lambda url: urlsplit(url)._replace(netloc=place).geturl(),
                lambda: _ip("link", "set", here, "down"),
                lambda: _ip("link", "set", here, "up"),
            )
        finally:
            forwarder.close()
    finally:
        _ip("netns", "del", name)


@contextmanager
def link(own: Server) -> Iterator[Link]:
    """By a namespace if that is possible, else by a proxy."""
    if _possible():
        with _namespace(own) as made:
            yield made
        return
    with proxy(own.dsn) as between:
        place = urlsplit(between.url).netloc
        yield Link(
            "a proxy that drops packets",
            (),
            lambda url: urlsplit(url)._replace(netloc=place).geturl(),
            between.partition,
            between.heal,
        )


def _possible() -> bool:
    name = f"proof{os.getpid() % 10_000}try"
    try:
        _ip("netns", "add", name)
        try:
            _ip("-n", name, "link", "add", "a0", "type", "veth", "peer", "name", "b0")
        finally:
            _ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _held_beyond(this: Storm, pid: int) -> int:
    rows = this.app.read(
        "select count(*) as n from duework_job j join duework_worker w on w.id = j.worker"
        " where w.pid = :pid",
        pid=pid,
    )
    return int(rows[0].n)


def _rounds(this: Storm, over: Link, rounds: int) -> None:
    far = this.start(prefix=over.prefix, DUEWORK_URL=over.url(this.url))
    this.load(0.03)
    near = this.start()
    until(lambda: _held_beyond(this, far.pid), 60)
    until(lambda: _held_beyond(this, near.pid), 60)
    for _ in range(rounds):
        until(lambda: _held_beyond(this, far.pid), 30)
        over.down()
        this.faults["partitions"] += 1
        # Nobody has heard of it for longer than a lease: the other one has taken over by now.
        taken = until(lambda: _held_beyond(this, far.pid) == 0, 60)
        this.faults["taken over"] += bool(taken)
        # In a long night also for so long that TCP gives up.
        time.sleep(this.rng.uniform(0, (2 if rounds < 10 else 6) * LEASE_MS / 1000))
        over.up()
        this.look()
        time.sleep(this.rng.uniform(0.5, 2))
    this.faults["told that it cannot write"] = this.told("nothing can be written")


def _planted(this: Storm, over: Link) -> bool:
    """Its jobs end while it is cut off, others run them again, and then it is heard."""
    plain = tasks.define(this.app)["plain"]
    far = this.start(prefix=over.prefix, DUEWORK_URL=over.url(this.url))
    for _ in range(3):
        # Nobody else may take them, and they end soon, before it gives up its leases by itself.
        jobs = plain.enqueue_many([(n, LEASE_MS / 3000) for n in range(SLOTS)])
        until(lambda: _held_beyond(this, far.pid), 60)
        over.down()
        near = this.start()
        this.settled(jobs, 60)
        over.up()
        if until(this.seen_wrong, 20):
            return True
        near.terminate()
        near.wait(60)
    return False


def cut(scale: Scale, seed: int) -> Result:
    """Cut a worker off, again and again; then the same with a bug."""
    result = Result(seed)
    with server() as own, link(own) as over:
        result.counts["cut by"] = over.kind
        with storm(own.create_database("cut"), seed, PROOF_BACKLOG=BACKLOG[scale]) as this:
            _rounds(this, over, ROUNDS[scale])
            this.quiet()
            if not this.drained(DRAINED_WITHIN):
                result.violations.append(f"{this.open_jobs()} jobs did not end")
            history, violations = this.judge()
            result.violations += violations
            result.counts |= counted(history, this.faults)
        with storm(own.create_database("planted"), seed, PROOF_PLANT=PLANT) as this:
            result.planted[PLANT] = _planted(this, over)
    rounds = ROUNDS[scale]
    lost = {"leases lost": rounds // 2} if scale == "full" else {}
    result.floors = {"partitions": rounds, "taken over": rounds, "jobs done": 5, **lost}
    if over.kind != "a network namespace":
        result.notes.append(f"No namespaces here: cut by {over.kind}.")
    return result


SECTION = Section(
    "partition",
    "A worker cut off from PostgreSQL",
    "A worker that cannot reach the server stops its jobs before their leases end; another one takes"
    " over; what the first one still says afterwards changes nothing.",
    cut,
)
