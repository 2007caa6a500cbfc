"""What a storm of shapes has left behind: rows, traces, notes, and what the twin upstream was told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from duework import App
from duework.errors import Error
from proof.shapework import KEYS, Ledger


class Fired(NamedTuple):
    """A job that a schedule has made."""

    schedule: str
    slot: int
    job: int
    state: str


class Counted(NamedTuple):
    """A batch's row."""

    id: int
    key: str
    total: int
    done: int
    failed: int
    cancelled: int
    gone: int
    settled: int | None
    then_job: int


class Walk(NamedTuple):
    """A chain's row: `last` is what it was started with."""

    id: int
    state: str
    completed: int
    items: int
    last: int


class Channelled(NamedTuple):
    """A channel of a delivery."""

    job: int
    channel: str
    key: str
    state: str
    send_started: int | None
    error: str | None
    n: int
    mood: str


class Posted(NamedTuple):
    """A message of an outbox."""

    id: int
    outbox: str
    key: str
    state: str
    unsure_since: int | None
    error: str | None
    n: int
    mood: str


class Start(NamedTuple):
    """A start of a paced job."""

    job: int
    fence: int
    now: int
    pid: int


@dataclass
class Shapes:
    """Everything the checker is given."""

    # Schedules: kind of rule, its start, when it was made, the newest slot.
    schedules: dict[str, tuple[str, int, int, int | None]] = field(default_factory=dict)
    fired: list[Fired] = field(default_factory=list)
    ticks: list[tuple[str, int, int]] = field(default_factory=list)
    batches: list[Counted] = field(default_factory=list)
    # Jobs by task: (job, batch, state), and (job, what their payload says, state).
    members: list[tuple[int, int, str]] = field(default_factory=list)
    closings: list[tuple[int, int, str]] = field(default_factory=list)
    member_traces: list[tuple[int, int]] = field(default_factory=list)
    close_traces: list[tuple[int, int, int]] = field(default_factory=list)
    # When jobs came to be and when they ended, by the number of the change.
    born: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    walks: list[Walk] = field(default_factory=list)
    pages: list[tuple[int, int, str]] = field(default_factory=list)
    page_traces: list[tuple[int, int, int, int]] = field(default_factory=list)
    walk_traces: list[tuple[int, int]] = field(default_factory=list)
    # Every change of a chain's state, in order: (chain, key, state).
    turns: list[tuple[int, str, str]] = field(default_factory=list)
    channels: list[Channelled] = field(default_factory=list)
    notified: list[tuple[int, str]] = field(default_factory=list)
    choices: list[tuple[int, int]] = field(default_factory=list)
    posts: list[Posted] = field(default_factory=list)
    # What the twin was told: (what, key) by the name of the box and the number of the message.
    upstream: dict[tuple[str, int], list[tuple[str, str]]] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    # Claims of paced jobs that somebody handed back, so that the next start may be a late one.
    unstarted: set[tuple[int, int]] = field(default_factory=set)
    woken: list[tuple[int, int]] = field(default_factory=list)
    # The log of each object, or None if it cannot be read.
    logs: dict[str, list[tuple[str, str]] | None] = field(default_factory=dict)
    receipts: list[tuple[str, str]] = field(default_factory=list)
    receipt_traces: list[str] = field(default_factory=list)
    called: list[dict[str, Any]] = field(default_factory=list)
    ops: list[dict[str, Any]] = field(default_factory=list)

    def acknowledged(self, *shapes: str) -> list[dict[str, Any]]:
        return [op for op in self.ops if op["kind"] == "ok" and op["shape"] in shapes]


def record(app: App) -> None:
    """Write down every change of a chain's state, in the transaction that makes it."""
    row = "insert into chain_turn (chain, key, state) values (new.id, new.key, new.state)"
    sqlite = app.wiring.engine.database.kind == "sqlite"
    serial = "integer primary key autoincrement" if sqlite else "bigserial primary key"
    body = f"begin {row}; end" if sqlite else "execute function chain_turned()"
    with app.transaction() as tx:
        tx.write(f"create table chain_turn (seq {serial}, chain bigint, key text, state text)")
        if not sqlite:
            tx.write(
                "create function chain_turned() returns trigger language plpgsql as"
                f" $$ begin {row}; return null; end $$"
            )
        for verb in ("insert", "update of state"):
            name = verb.split()[0]
            tx.write(
                f"create trigger chain_{name} after {verb} on duework_chain for each row {body}"
            )


def gather(
    app: App,
    ops: list[dict[str, Any]],
    notes: list[dict[str, Any]],
    folder: Path,
    woken: list[tuple[int, int]],
) -> Shapes:
    """Read everything, once it is over."""
    seen = Shapes(ops=list({op["n"]: op for op in ops}.values()), woken=woken)
    _jobs(app, seen)
    _chains(app, seen)
    _messages(app, seen)
    for path in folder.iterdir():
        box, _, n = path.name.partition("-")
        told = [line.partition(" ") for line in path.read_text().splitlines()]
        seen.upstream[box, int(n)] = [(what, key) for what, _, key in told]
    _paced(app, seen, notes)
    for key in (f"k{number}" for number in range(KEYS)):
        try:
            seen.logs[key] = app.object(Ledger, key).log().result()
        except Error:
            seen.logs[key] = None
    seen.called = [each for each in notes if each["what"] == "called"]
    return seen


def _jobs(app: App, seen: Shapes) -> None:
    """Schedules, batches, and the traces of their jobs."""
    for row in app.read("select key, kind, start, created, last_slot from duework_schedule"):
        seen.schedules[row.key] = (row.kind, row.start, row.created, row.last_slot)
    for row in app.read("select id, task, state, key, batch, payload from duework_job"):
        given = json.loads(row.payload)
        match row.task:
            case "tick":
                schedule, _, slot = row.key.removeprefix("schedule:").rpartition("@")
                seen.fired.append(Fired(schedule, int(slot), row.id, row.state))
            case "member":
                seen.members.append((row.id, row.batch, row.state))
            case "closing":
                seen.closings.append((row.id, given["batch"], row.state))
            case "receipt":
                seen.receipts.append((given["value"], row.state))
            case "notify":
                seen.notified.append((row.id, row.state))
    _traces(app, seen)


def _traces(app: App, seen: Shapes) -> None:
    seen.ticks = _rows(app, "select schedule, slot, job from did_tick")
    seen.member_traces = _rows(app, "select batch, job from did_member")
    seen.close_traces = _rows(app, "select batch, job, ended from did_close")
    seen.receipt_traces = [row.value for row in app.read("select value from did_receipt")]
    columns = "id, key, total, done, failed, cancelled, gone, settled, then_job"
    seen.batches = [Counted(*row) for row in app.read(f"select {columns} from duework_batch")]
    for row in app.read("select seq, job, was_state, state from hist order by seq"):
        if row.was_state == "":
            seen.born[row.job] = row.seq
        elif row.was_state == "open" and row.state != "open":
            seen.ended.setdefault(row.job, row.seq)


def _chains(app: App, seen: Shapes) -> None:
    for row in app.read("select id, state, completed, counts, payload from duework_chain"):
        items = json.loads(row.counts).get("items", 0)
        last = json.loads(row.payload)["last"]
        seen.walks.append(Walk(row.id, row.state, row.completed, items, last))
    seen.pages = _rows(app, "select chain, number, state from duework_page order by chain, number")
    traces = "select chain, number, low, high from did_page order by chain, number, low"
    seen.page_traces = _rows(app, traces)
    seen.walk_traces = _rows(app, "select chain, items from did_walk")
    seen.turns = _rows(app, "select chain, key, state from chain_turn order by seq")


def _messages(app: App, seen: Shapes) -> None:
    columns = "job, channel, key, state, send_started, error, payload"
    for row in _rows(app, f"select {columns} from duework_delivery"):
        given = json.loads(row[-1])
        seen.channels.append(Channelled._make([*row[:-1], given["n"], given["mood"]]))
    columns = "id, outbox, key, state, unsure_since, error, message"
    for row in _rows(app, f"select {columns} from duework_outbox"):
        given = json.loads(row[-1])["message"]
        seen.posts.append(Posted._make([*row[:-1], given["n"], given["mood"]]))
    seen.choices = _rows(app, "select job, n from did_choose")


def _paced(app: App, seen: Shapes, notes: list[dict[str, Any]]) -> None:
    seen.starts = [
        Start(each["job"], each["fence"], each["now"], each["pid"])
        for each in notes
        if each["what"] == "paced"
    ]
    started = {(start.job, start.fence) for start in seen.starts}
    claims = app.read(
        "select job, fence from hist where task = 'paced' and worker is not null and fence > was_fence"
    )
    lost = {tuple(row) for row in app.read("select job, fence from duework_attempt")}
    seen.unstarted = {(row.job, row.fence) for row in claims} - started - lost


def _rows(app: App, sql: str) -> list[Any]:
    return [tuple(row) for row in app.read(sql)]
