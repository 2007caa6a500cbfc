"""The verbs of a client for events, sweeps, workflows, budgets, blobs and metrics."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from duework.averbs import averb
from duework.client.asking import Asking, id_text
from duework.durations import Duration
from duework.web.api.record_types import (
    BlobContent,
    BlobLine,
    BlobMade,
    BudgetLine,
    EventDetail,
    EventLine,
    FailedEventLine,
    MetricLine,
    SpendLine,
    StepLine,
    SubscriberLine,
    SweepItemLine,
    SweepLine,
    WorkflowLine,
)
from duework.web.api.shape_types import Count
from duework.web.api.types import Acted, Listed, Made


class Records(Asking):
    """What programs elsewhere do with what is recorded."""

    # --- events

    def publish(self, name: str, payload: Any = None, *, key: str | None = None) -> Made:
        """Publish an event; with a key once, however often it is sent."""
        return self.ask("POST", "/events", Made, {"name": name, "payload": payload}, key=key)

    def event(self, identifier: str | int) -> EventDetail:
        """An event, and what became of it at each subscriber."""
        return self.ask("GET", f"/events/{id_text(identifier)}", EventDetail)

    def events(self, name: str = "", **wanted: Any) -> Iterator[EventLine]:
        """Events that are kept, of one name or all, newest first."""
        return self.ask_all("/events", Listed[EventLine], {"name": name, **wanted})

    def subscribers(self) -> Iterator[SubscriberLine]:
        """Who gets which events."""
        return self.ask_all("/subscribers", Listed[SubscriberLine], {})

    def failed_events(self, subscriber: str, **wanted: Any) -> Iterator[FailedEventLine]:
        """Events that a subscriber has given up on, newest first."""
        path = f"/subscribers/{quote(subscriber, '')}/failed"
        return self.ask_all(path, Listed[FailedEventLine], wanted)

    def redrive(self, subscriber: str, events: Sequence[str | int] | None = None) -> int:
        """Run failed events again, these or all; how many."""
        return self._failed(subscriber, "redrive", events)

    def purge(self, subscriber: str, events: Sequence[str | int] | None = None) -> int:
        """Forget failed events for good, these or all; how many."""
        return self._failed(subscriber, "purge", events)

    def _failed(self, subscriber: str, verb: str, events: Sequence[str | int] | None) -> int:
        path = f"/subscribers/{quote(subscriber, '')}/{verb}"
        chosen = {"all": True} if events is None else {"events": [id_text(each) for each in events]}
        return self.ask("POST", path, Count, chosen).count

    # --- sweeps

    def sweep(self, name: str) -> SweepLine:
        """How a sweep goes."""
        return self.ask("GET", f"/sweeps/{quote(name, '')}", SweepLine)

    def sweeps(self) -> Iterator[SweepLine]:
        """Sweeps by name."""
        return self.ask_all("/sweeps", Listed[SweepLine], {})

    def sweep_items(self, name: str, limit: int = 50) -> list[SweepItemLine]:
        """Items that are put off, the next ones first."""
        path = f"/sweeps/{quote(name, '')}/items"
        return self.ask("GET", path, Listed[SweepItemLine], query={"limit": limit}).items

    def start_sweep(self, name: str) -> SweepLine:
        """Let it run, and look at once."""
        return self.ask("POST", f"/sweeps/{quote(name, '')}/start", SweepLine, {})

    def stop_sweep(self, name: str) -> SweepLine:
        """Begin no more groups."""
        return self.ask("POST", f"/sweeps/{quote(name, '')}/stop", SweepLine, {})

    def reset_sweep(self, name: str) -> SweepLine:
        """Forget what went wrong, and count anew."""
        return self.ask("POST", f"/sweeps/{quote(name, '')}/reset", SweepLine, {})

    # --- workflows

    def workflow(self, identifier: str | int) -> WorkflowLine:
        """A job that has recorded steps."""
        return self.ask("GET", f"/workflows/{id_text(identifier)}", WorkflowLine)

    def workflows(self, state: str = "", **wanted: Any) -> Iterator[WorkflowLine]:
        """Workflows, newest first; `state="attention"`: those that need somebody."""
        return self.ask_all("/workflows", Listed[WorkflowLine], {"state": state, **wanted})

    def steps(self, identifier: str | int) -> list[StepLine]:
        """The steps of a workflow, in their order."""
        path = f"/workflows/{id_text(identifier)}/steps"
        return self.ask("GET", path, Listed[StepLine]).items

    def resume_workflow(self, identifier: str | int) -> WorkflowLine:
        """Go on from what is recorded."""
        return self.ask("POST", f"/workflows/{id_text(identifier)}/resume", WorkflowLine, {})

    def cancel_workflow(self, identifier: str | int, why: str = "") -> WorkflowLine:
        """End it for good."""
        path = f"/workflows/{id_text(identifier)}/cancel"
        return self.ask("POST", path, WorkflowLine, {"why": why})

    def fork_workflow(self, identifier: str | int, step: str) -> Made:
        """A new job with what is recorded before a step."""
        return self.ask("POST", f"/workflows/{id_text(identifier)}/fork", Made, {"step": step})

    def signal(self, event: str, payload: Any = None, *, key: str = "") -> Acted:
        """Tell the workflows that wait for an event."""
        return self.ask("POST", "/signals", Acted, {"event": event, "payload": payload, "key": key})

    # --- budgets

    def budget(self, name: str) -> BudgetLine:
        """What is spent, reserved and left."""
        return self.ask("GET", f"/budgets/{quote(name, '')}", BudgetLine)

    def budgets(self, prefix: str = "") -> Iterator[BudgetLine]:
        """Budgets by name."""
        return self.ask_all("/budgets", Listed[BudgetLine], {"prefix": prefix})

    def ledger(self, budget: str, **wanted: Any) -> Iterator[SpendLine]:
        """What was spent, newest first."""
        return self.ask_all(f"/budgets/{quote(budget, '')}/ledger", Listed[SpendLine], wanted)

    def raise_budget(self, name: str, limit: object, why: str = "") -> BudgetLine:
        """Change the limit; jobs that wait for that go on."""
        body = {"limit": str(limit), "why": why}
        return self.ask("POST", f"/budgets/{quote(name, '')}/raise", BudgetLine, body)

    # --- blobs

    def put_blob(
        self,
        key: str,
        data: bytes | str,
        *,
        ttl: Duration | None = None,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
    ) -> BlobMade:
        """Store a blob of up to 3 MB."""
        given = {"text": data} if isinstance(data, str) else {"base64": b64encode(data).decode()}
        about = {"ttl": ttl, "content_type": content_type, "metadata": dict(metadata or {})}
        body = {**given, **about, "if_absent": if_absent}
        return self.ask("PUT", f"/blobs/{quote(key, '')}", BlobMade, body)

    def get_blob(self, key: str) -> bytes:
        """Its content; `NotFound` if there is none."""
        return self.ask("GET", f"/contents/{quote(key, '')}", BlobContent).base64

    def blob(self, key: str) -> BlobLine:
        """Size, digest, times and metadata."""
        return self.ask("GET", f"/blobs/{quote(key, '')}", BlobLine)

    def blobs(self, prefix: str = "") -> Iterator[BlobLine]:
        """Blobs by key."""
        return self.ask_all("/blobs", Listed[BlobLine], {"prefix": prefix})

    def delete_blob(self, key: str) -> Acted:
        """Take a blob away."""
        return self.ask("DELETE", f"/blobs/{quote(key, '')}", Acted)

    # --- metrics

    def metrics(self) -> list[MetricLine]:
        """The sums of all time, by name and labels."""
        return self.ask("GET", "/metrics", Listed[MetricLine]).items

    def metric(
        self, name: str, span: Literal["minute", "hour", "day"] = "hour", **wanted: Any
    ) -> list[MetricLine]:
        """What was counted under a name, oldest first; since= and limit= as in Python."""
        path, query = f"/metrics/{quote(name, '')}", {"span": span, **wanted}
        return self.ask("GET", path, Listed[MetricLine], query=query).items

    # --- the same for async code

    apublish = averb(publish)
    aevent = averb(event)
    aredrive = averb(redrive)
    aworkflow = averb(workflow)
    asteps = averb(steps)
    asignal = averb(signal)
    abudget = averb(budget)
    aput_blob = averb(put_blob)
    aget_blob = averb(get_blob)
