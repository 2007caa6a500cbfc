"""Paces: those that hold work back first; the controller and the quotas drawn; block, forget, stop, start."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from duework.db.database import Tx
from duework.durations import human, milliseconds
from duework.errors import UsageError
from duework.health.activity import Slots, slots_of
from duework.kernel.paces import wishes
from duework.kernel.paces.pace import UNTIL_ASKED
from duework.shapes.paces.handle import Paces, PaceStatus
from duework.web.acts import acted, ask, sure
from duework.web.charts import stacked
from duework.web.drawn.paces import PaceWindow, controller, starts, windows
from duework.web.filters import at_clock, dur, n
from duework.web.lists import PAGE, address, required, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import SOON, Visit

# So many are drawn on the list; the others have a line each, and a page.
DRAWN = 6
QUARTER = 15
# How a pace of one number and one length was declared: Rate('19/1m'), Tick(20, '10s').
_DECLARED = re.compile(r"(?P<kind>Rate|Tick)\('?(?P<count>\d+)(?:/|, ')(?P<length>\w+)'\)")
_EVERY = {"Rate": "in", "Tick": "every"}
# What is told of a controller beside what it does now.
_DETAILS = {
    "total_dispatched": ("Started", n),
    "total_completed": ("Done", n),
    "total_failed": ("Failed", n),
    "total_permanent": ("Failed for good", n),
    "completions_per_minute": ("Done a minute", lambda value: f"{value:g}"),
    "success_rate": ("Success, 5 min", lambda value: f"{value:g} %"),
    "projected_per_day": ("Would be a day", n),
}


# When it was judged: the batch, the interval and the success that followed.
Judged = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class PaceView:
    """A pace with what a page says of it."""

    pace: PaceStatus
    windows: list[PaceWindow]
    tasks: list[str]
    queues: list[str]

    @property
    def name(self) -> str:
        return self.pace.name

    @property
    def full(self) -> PaceWindow | None:
        return next((each for each in self.windows if each.used >= each.limit > 0), None)

    @property
    def holds(self) -> bool:
        """Whether something waits for it, or would."""
        pace = self.pace
        return pace.stopped or pace.blocked_until is not None or pace.waits_until is not None

    @property
    def stuck(self) -> bool:
        """Whether it admits nothing for a while, and does not only spread work out."""
        return self.now[0] in {"blocked", "cooldown", "paused"}

    @property
    def now(self) -> tuple[str, str, int | None]:
        """The glyph, the words and the end of what it does now."""
        pace, details = self.pace, self.pace.details
        if pace.stopped:
            return "paused", "stopped by hand", None
        if details.get("in_cooldown"):
            return "cooldown", "takes a rest until", details["cooldown_until"]
        if pace.blocked_until is not None:
            until = pace.blocked_until
            return "blocked", "blocked until", until if until < UNTIL_ASKED else None
        if self.full is not None:
            return "blocked", "used up until", self.full.ends
        if pace.waits_until is not None:
            return "running", "the next may start at", pace.waits_until
        return self._free

    @property
    def _free(self) -> tuple[str, str, int | None]:
        details = self.pace.details
        if self.pace.kind != "adaptive" or not details:
            return "idle", "free", None
        every = dur(details["current_interval_ms"])
        return "running", f"batch {details['current_batch_size']} every {every}", None


def _view(visit: Visit, pace: PaceStatus) -> PaceView:
    registry = visit.app.wiring.registry
    return PaceView(
        pace,
        windows(pace, _known(visit, pace)),
        [task for task, gates in registry.task_paces.items() if _uses(gates, pace)],
        [queue for queue, gates in registry.queue_paces.items() if _uses(gates, pace)],
    )


def _uses(gates: Any, pace: PaceStatus) -> bool:
    return any(pace.name == gate.name or pace.name.startswith(f"{gate.name}[") for gate in gates)


def _known(visit: Visit, pace: PaceStatus) -> Any:
    return visit.app.wiring.find(Paces).find(pace.name)


def paces(visit: Visit) -> Response:
    """By name; those that are drawn and hold something back stand first."""
    prefix, after = text(visit, "prefix"), text(visit, "after")
    found = visit.app.paces(prefix, after=after, limit=PAGE + 1)
    views = [_view(visit, pace) for pace in found[:PAGE]]
    holding = [view for view in views if view.holds]
    visit.again = SOON if holding else None
    large = [view for view in views if view.pace.kind == "adaptive" or view.windows]
    large.sort(key=lambda view: (not view.holds, view.pace.kind != "adaptive", view.name))

    def here(**more: str) -> str:
        return address(visit.base, "/paces", **{"prefix": prefix, **more})

    drawn = large[:DRAWN]
    return show(
        *(visit, "paces.html"),
        adaptive=[
            (view, _controller(visit, view, place))
            for place, view in enumerate(drawn)
            if view.pace.kind == "adaptive"
        ],
        quotas=[(view, _bars(visit, view)) for view in drawn if view.windows],
        rows=[view for view in views if view not in drawn],
        holding=[view for view in holding if view.stuck] or holding,
        stuck=any(view.stuck for view in holding),
        count=len(views),
        says=_said,
        changed=lambda view: _changed(visit, view),
        filters=[("prefix", "Names that begin with", prefix)],
        chosen=[("prefix", prefix, here(prefix=""))] if prefix else [],
        newest=here() if after else "",
        older=here(after=views[-1].name) if len(found) > PAGE else "",
        order="By name",
    )


def _said(view: PaceView) -> str:
    """What it admits, in words; as it was declared where there are none."""
    says = view.pace.says or view.pace.kind
    if says == "Adaptive()":
        return "as many as the other side answers well"
    if view.windows:
        return " and ".join(f"{n(each.limit)} in {each.words}" for each in view.windows)
    found = _DECLARED.fullmatch(says)
    if found is None:
        return says
    return f"{found['count']} {_EVERY[found['kind']]} {dur(milliseconds(found['length']))}"


def _controller(visit: Visit, view: PaceView, place: int) -> Markup:
    known = _known(visit, view.pace)
    return controller(view.pace, known, visit.app.now(), visit.zone, str(place))


def _changed(visit: Visit, view: PaceView) -> str:
    """The last change of a controller, in words."""
    if not view.pace.history:
        return "Nothing has been judged yet."
    at, batch, every, success = max(view.pace.history)
    done = view.pace.details.get("completions_per_minute", 0)
    time = at_clock(at, visit.app.now(), visit.zone)
    words = f"At {time} success was {success} %: batch {batch}, every {dur(every)}."
    return f"{words} {done:g} done a minute now."


def _seen(visit: Visit, view: PaceView, minutes: int, slots: int) -> Slots:
    """What was started of all that it is given to."""
    queue = view.queues[0] if view.queues and not view.tasks else ""
    tasks = None if queue else view.tasks
    with visit.app.wiring.engine.database.reading() as tx:
        return slots_of(
            tx, now=visit.app.now(), queue=queue, tasks=tasks, minutes=minutes, slots=slots
        )


def _bars(visit: Visit, view: PaceView) -> Markup:
    """Quarter hours of a quota with such a window, else minutes."""
    quarter = next((each for each in view.windows if each.label in {"15m", "900s"}), None)
    minutes, slots = (QUARTER, 16) if quarter or not view.windows else (QUARTER, 32)
    drawn = starts(
        _seen(visit, view, minutes, slots), visit.zone, 4, quarter.limit if quarter else 0
    )
    return Markup(stacked(**drawn, height=104))  # noqa: S704 - charts escape their texts


def pace(visit: Visit) -> Response:
    """One pace: what it admits now, what it did, what uses it."""
    view = _view(visit, visit.app.get_pace(required(visit, "name")))
    visit.again = SOON if view.holds else None
    drawn = starts(_seen(visit, view, 1, 60), visit.zone, 15)
    return show(
        *(visit, "pace.html"),
        heading=view.name,
        view=view,
        pace=view.pace,
        drawn=_controller(visit, view, 0) if view.pace.kind == "adaptive" else "",
        changed=_changed(visit, view),
        quarters=_bars(visit, view) if view.windows else "",
        minutes=Markup(stacked(**drawn, height=104)),  # noqa: S704 - charts escape their texts
        history=_changes(view.pace.history)[:10],
        says=_said,
        details=[
            (words, told(view.pace.details[name]))
            for name, (words, told) in _DETAILS.items()
            if name in view.pace.details
        ],
    )


def _changes(history: Iterable[Judged]) -> list[Judged]:
    """Newest first; of what was judged alike again and again, when it was so first."""
    found: list[Judged] = []
    for each in sorted(history):
        if not found or each[1:] != found[-1][1:]:
            found.append(each)
    return found[::-1]


# --- acting


def _change(visit: Visit, what: str, how: wishes.Change, said: str) -> Response:
    name, engine = required(visit, "name"), visit.app.wiring.engine
    visit.app.get_pace(name)
    known = visit.app.wiring.registry.paces.get(name)

    def act(tx: Tx) -> str:
        engine.change_pace(tx, [(name, known.kind if known is not None else None, how)])
        return what

    return acted(visit, what, f"pace {name}", act, said)


def _asked(
    visit: Visit, question: str, effect: str, button: str, act: Callable[[], Response]
) -> Response:
    """The question first: what a pace forgets is not to be had back."""
    if sure(visit):
        return act()
    name = required(visit, "name")
    visit.app.get_pace(name)
    return ask(
        *(visit, question.replace("{}", name), effect),
        effects=[("ready", "Jobs that wait for it are kept"), ("running", "What runs goes on")],
        fields=[
            ("name", name),
            *([("length", text(visit, "length"))] if visit.sent("length") else []),
        ],
        crumb=("/paces", "Paces"),
        button=button,
    )


def block(visit: Visit) -> Response:
    """Start nothing more of it for so long, after asking; 0s ends a block at once."""
    length = milliseconds(text(visit, "length") or "15m")
    how, words = wishes.block(length, visit.app.now()), human(length)
    if not length:
        return _change(visit, "unblock", how, "It admits jobs again")
    return _asked(
        *(visit, f"Block pace {{}} for {words}?", f"Nothing of it starts for {words}."),
        "Block it",
        lambda: _change(visit, f"block for {words}", how, f"It is blocked for {words}"),
    )


def reset(visit: Visit) -> Response:
    """Let it forget everything, after asking."""
    return _asked(
        *(visit, "Let pace {} forget everything?"),
        "What it used and learned is gone: it may start more than the other side allows.",
        "Forget it",
        lambda: _change(visit, "reset", wishes.reset, "It has forgotten everything"),
    )


def _adaptive(visit: Visit) -> None:
    found = visit.app.get_pace(required(visit, "name"))
    if found.kind != "adaptive":
        raise UsageError(f"{found.name} is no adaptive pace; block it, or pause its queue")


def stop(visit: Visit) -> Response:
    """Admit nothing until it is started, after asking."""
    _adaptive(visit)
    return _asked(
        *(visit, "Stop pace {}?", "Nothing of it starts until it is started again."),
        "Stop it",
        lambda: _change(visit, "stop", wishes.run(running=False), "It is stopped"),
    )


def start(visit: Visit) -> Response:
    _adaptive(visit)
    return _change(visit, "start", wishes.run(running=True), "It goes on")


LIVE = regions("paces", paces=2.0, others=2.0)
ONE = regions("paces", head=1.0, detail=2.0)
PAGES = [
    OwnPage("/paces", paces, live=LIVE, nav=NavItem("Paces", "paces", "Outside", key="p")),
    OwnPage("/paces/one", pace, live=ONE),
    OwnPage("/paces/block", block, "operate", "POST"),
    OwnPage("/paces/reset", reset, "operate", "POST"),
    OwnPage("/paces/stop", stop, "operate", "POST"),
    OwnPage("/paces/start", start, "operate", "POST"),
]
