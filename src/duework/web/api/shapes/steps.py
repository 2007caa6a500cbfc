"""Workflows by HTTP: their steps; resume, fork and cancel one, and tell those that wait for an event."""

from __future__ import annotations

from collections.abc import Callable

from duework.codec import decode
from duework.shapes.steps.handle import Step, Workflow
from duework.web.api.operation import (
    BASE,
    FIRST_ID,
    Answer,
    Ask,
    Operation,
    acts,
    line_of,
    noted,
    page_of,
    place_of,
    reads,
    text_of,
)
from duework.web.api.record_types import (
    ForkWorkflow,
    SendSignal,
    StepLine,
    WorkflowLine,
    WorkflowQuery,
)
from duework.web.api.types import Acted, Because, Listed, Made


def workflows(ask: Ask) -> Listed[WorkflowLine]:
    """Workflows, newest first."""
    wanted: WorkflowQuery = ask.query
    before = place_of(wanted.cursor, int, FIRST_ID)
    found = ask.app.workflows(wanted.state, before=before, limit=wanted.limit)
    return page_of(found, wanted.limit, _line, lambda each: each.job)


def workflow(ask: Ask) -> WorkflowLine:
    """One workflow as it is now."""
    return _line(_found(ask))


def _found(ask: Ask) -> Workflow:
    found: Workflow = ask.app.get_workflow(min(ask.id(), FIRST_ID))
    return found


def _line(seen: Workflow) -> WorkflowLine:
    return line_of(WorkflowLine, seen, id=str(seen.job))


def steps(ask: Ask) -> Listed[StepLine]:
    """The steps of a workflow, in their order."""
    return Listed([_step(each, payloads=ask.payloads) for each in _found(ask).steps()], None)


def _step(seen: Step, *, payloads: bool) -> StepLine:
    result = None if seen.result is None or not payloads else decode(seen.result)
    return line_of(StepLine, seen, result=result, child=text_of(seen.child))


def resume(ask: Ask) -> WorkflowLine:
    """Go on from what is recorded."""
    return _on(ask, "resume", Workflow.resume)


def cancel(ask: Ask) -> WorkflowLine:
    """End it for good; steps that are done stay done."""
    words = ask.body.why or f"cancelled by {ask.who.name}"
    return _on(ask, "cancel", lambda found: found.cancel(words))


def _on(ask: Ask, what: str, act: Callable[[Workflow], None]) -> WorkflowLine:
    found = _found(ask)
    noted(ask, what, f"workflow {found.job}", lambda: act(found))
    return _line(_found(ask))


def fork(ask: Ask) -> Answer:
    """A new job with what is recorded before a step, which it begins with."""
    found, step = _found(ask), ask.body.step
    made = noted(ask, "fork", f"workflow {found.job}", lambda: found.fork(step))
    return Answer(Made(str(made), existed=False), 201, f"{BASE}/workflows/{made}")


def signal(ask: Ask) -> Acted:
    """Tell the workflows that wait for an event, now or later."""
    wanted: SendSignal = ask.body

    def act() -> None:
        ask.app.signal(wanted.event, wanted.payload, key=wanted.key)

    noted(ask, "signal", f"event {wanted.event}", act)
    return Acted(wanted.event, "told")


_ONE = "/workflows/{id}"
OPERATIONS = (
    reads("/workflows", workflows, Listed[WorkflowLine], WorkflowQuery),
    reads(_ONE, workflow, WorkflowLine),
    reads(f"{_ONE}/steps", steps, Listed[StepLine]),
    acts(f"{_ONE}/resume", resume, WorkflowLine, Because),
    acts(f"{_ONE}/cancel", cancel, WorkflowLine, Because),
    Operation("POST", f"{_ONE}/fork", "operate", fork, Made, body=ForkWorkflow, statuses=(201,)),
    acts("/signals", signal, Acted, SendSignal),
)
