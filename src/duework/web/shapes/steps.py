"""Workflows: those that need attention first; their steps on one axis of time; resume, fork, cancel."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from duework.db.database import Tx
from duework.kernel.error_text import redact
from duework.shapes.steps import verbs
from duework.shapes.steps.handle import STATES, Step
from duework.web.acts import acted, ask, sure
from duework.web.lists import PAGE, address, before, number, one_of, path_id, required, show
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import SOON, Visit

GLYPHS = {"attention": "unsure", "ended": "done", "trying": "running"}


def workflows(visit: Visit) -> Response:
    """Newest first, by state."""
    state = one_of(visit, "state", STATES)
    found = visit.app.workflows(state, before=before(visit), limit=PAGE + 1)
    shown = found[:PAGE]

    def here(**more: str | int) -> str:
        return address(visit.base, "/steps", **{"state": state, **more})

    return show(
        *(visit, "workflows.html"),
        rows=shown,
        going=sum(each.state == "running" for each in shown),
        bad=visit.app.workflows("attention", limit=PAGE),
        glyphs=GLYPHS,
        states=[("All", here(state=""), not state)]
        + [(each.capitalize(), here(state=each), each == state) for each in STATES],
        newest=here() if visit.asked("before") else "",
        older=here(before=shown[-1].job) if len(found) > PAGE else "",
    )


def workflow(visit: Visit) -> Response:
    """One workflow: its steps in their order."""
    found = visit.app.get_workflow(path_id(visit, "workflow"))
    steps, now = found.steps(), visit.app.now()
    visit.again = SOON if found.state == "running" else None
    first = min([found.started, *(each.started for each in steps)])
    last = max([found.started + 1, *(_end(each, now) for each in steps)])

    def place(ms: int) -> float:
        return min(1.0, max(0.0, (ms - first) / max(1, last - first)))

    return show(
        *(visit, "workflow.html"),
        heading=f"Workflow {found.job}",
        flow=found,
        steps=steps,
        glyphs=GLYPHS,
        waits=next((each for each in steps if each.ended is None), None),
        place=place,
        end=lambda each: _end(each, now),
        now_at=place(now) if found.state == "running" else None,
    )


def _end(each: Step, now: int) -> int:
    """Where its bar ends: a sleep that is not over, now."""
    if each.kind == "sleep" and each.due is not None:
        return min(each.due, now)
    return now if each.ended is None else each.ended


# --- acting


def _act(visit: Visit, what: str, act: Callable[[Tx, int], str], said: str) -> Response:
    job = number(visit, "id")
    return acted(visit, what, f"workflow {job}", lambda tx: act(tx, job), said)


def resume(visit: Visit) -> Response:
    """Go on from what is recorded."""
    engine = visit.app.wiring.engine

    def act(tx: Tx, job: int) -> str:
        verbs.resume(tx, [job], engine)
        return "running"

    return _act(visit, "resume", act, "It goes on from its records")


def fork(visit: Visit) -> Response:
    """A new job with the records before a step."""
    step, engine = required(visit, "step"), visit.app.wiring.engine

    def act(tx: Tx, job: int) -> str:
        return str(verbs.fork(tx, [(job, step)], engine)[0])

    return _act(visit, "fork", act, f"Job {{}} begins with step {step[:60]}")


def cancel(visit: Visit) -> Response:
    """End it for good, after asking."""
    found, engine = visit.app.get_workflow(number(visit, "id")), visit.app.wiring.engine
    if not sure(visit):
        return ask(
            *(visit, f"Cancel workflow {found.job}?", "Its steps that are done stay done."),
            effects=[("done", f"{found.done:,} recorded steps stay as they are")],
            fields=[("id", found.job)],
            crumb=(f"/steps/{found.job}", f"Workflow {found.job}"),
            keep="Let it be",
            button="Cancel the workflow",
        )
    why = redact(visit.sent("why")) or "cancelled by hand"

    def act(tx: Tx, job: int) -> str:
        verbs.cancel(tx, [(job, why)], engine)
        return "cancelled"

    return _act(visit, "cancel", act, "It is {}")


LIVE = regions("steps", workflows=1.0)
ONE = regions("steps", head=1.0, detail=1.0)
PAGES = [
    OwnPage("/steps", workflows, live=LIVE, nav=NavItem("Workflows", "workflows", "Work")),
    OwnPage("/steps/{id:int}", workflow, live=ONE),
    OwnPage("/steps/resume", resume, "operate", "POST"),
    OwnPage("/steps/fork", fork, "operate", "POST"),
    OwnPage("/steps/cancel", cancel, "operate", "POST"),
]
