"""Schedules by HTTP: make, change, pause, resume, fire, postpone and delete one, and see when it fires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from duework.byname import args_of, task_by_name
from duework.shapes.schedules.handle import Schedule
from duework.web.api.operation import (
    BASE,
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
from duework.web.api.shape_types import (
    ChangeSchedule,
    NewSchedule,
    Postpone,
    ScheduleLine,
    ScheduleQuery,
)
from duework.web.api.types import Acted, Listed, Made, Nothing

UPCOMING = 5


def schedules(ask: Ask) -> Listed[ScheduleLine]:
    """Schedules by key."""
    wanted: ScheduleQuery = ask.query
    after = place_of(wanted.cursor, str, "")
    found = ask.app.schedules(wanted.prefix, after=after, limit=wanted.limit)
    return page_of(found, wanted.limit, _line, lambda each: each.key)


def schedule(ask: Ask) -> ScheduleLine:
    """One schedule, and when it fires next."""
    return _line(ask.app.get_schedule(ask.path["key"]))


def _line(seen: Schedule) -> ScheduleLine:
    following = [each.isoformat() for each in seen.next(UPCOMING)]
    return line_of(ScheduleLine, seen, last_job=text_of(seen.last_job), next=following)


def _given(wanted: ChangeSchedule) -> dict[str, Any]:
    names = ChangeSchedule.__struct_fields__
    found = {name: getattr(wanted, name) for name in names}
    return {name: value for name, value in found.items() if value is not msgspec.UNSET}


def put(ask: Ask) -> ScheduleLine:
    """Make a schedule, or replace the one of this key; the same again changes nothing."""
    wanted: NewSchedule = ask.body
    key, task = ask.path["key"], task_by_name(ask.app, wanted.task)
    args = args_of(task.definition.arguments, wanted.arguments)

    def act() -> Schedule:
        return ask.app.schedule(task, args=args, key=key, **_given(wanted))

    return _line(noted(ask, "put", f"schedule {key}", act))


def change(ask: Ask) -> ScheduleLine:
    """Change what is given; a decorator does not change it back."""
    return _on(ask, "edit", lambda seen: seen.edit(**_given(ask.body)))


def pause(ask: Ask) -> ScheduleLine:
    """Fire no more until it is resumed."""
    return _on(ask, "pause", Schedule.pause)


def resume(ask: Ask) -> ScheduleLine:
    """Fire again, from the next slot on."""
    return _on(ask, "resume", Schedule.resume)


def postpone(ask: Ask) -> ScheduleLine:
    """Fire the next slot later; the plan stays as it is."""
    return _on(ask, "postpone", lambda seen: seen.postpone(ask.body.by))


def fire(ask: Ask) -> Answer:
    """One job at once, beside the plan."""
    seen = ask.app.get_schedule(ask.path["key"])
    job = noted(ask, "fire", f"schedule {seen.key}", seen.fire_now)
    return Answer(Made(str(job.id), existed=False), 201, f"{BASE}/jobs/{job.id}")


def delete(ask: Ask) -> Acted:
    """Fire no more, and forget it."""
    seen = ask.app.get_schedule(ask.path["key"])
    noted(ask, "delete", f"schedule {seen.key}", seen.delete)
    return Acted(seen.key, "deleted")


def _on(ask: Ask, what: str, act: Callable[[Schedule], Schedule]) -> ScheduleLine:
    seen = ask.app.get_schedule(ask.path["key"])
    return _line(noted(ask, what, f"schedule {seen.key}", lambda: act(seen)))


# A key may have slashes in it.
_ONE = "/schedules/{key:any}"
OPERATIONS = (
    reads("/schedules", schedules, Listed[ScheduleLine], ScheduleQuery),
    acts(f"{_ONE}/pause", pause, ScheduleLine, Nothing),
    acts(f"{_ONE}/resume", resume, ScheduleLine, Nothing),
    acts(f"{_ONE}/postpone", postpone, ScheduleLine, Postpone),
    Operation("POST", f"{_ONE}/fire", "operate", fire, Made, body=Nothing, statuses=(201,)),
    reads(_ONE, schedule, ScheduleLine),
    Operation("PUT", _ONE, "operate", put, ScheduleLine, body=NewSchedule),
    Operation("PATCH", _ONE, "operate", change, ScheduleLine, body=ChangeSchedule),
    Operation("DELETE", _ONE, "operate", delete, Acted),
)
