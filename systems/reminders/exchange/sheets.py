"""CSV: a line for each reminder, with the names of the API's fields in the first."""

from __future__ import annotations

import csv
import io
from typing import Any

from duework import UsageError
from systems.reminders.exchange.rows import BYTES, Incoming, outgoing, said_times

COLUMNS = (
    "id",
    "title",
    "text",
    "say",
    "at",
    "cron",
    "rrule",
    "every",
    "zone",
    "start",
    "end",
    "count",
    "missed",
    "email",
    "endpoint",
    "quiet",
    "repeat",
)
# A sheet takes what begins so for a formula; a quote in front keeps it text, and is taken off again.
FORMULAS = ("=", "+", "-", "@", "\t")


def to_csv() -> str:
    """All that have times to come."""
    made = io.StringIO()
    sheet = csv.DictWriter(made, COLUMNS)
    sheet.writeheader()
    for reminder, schedule in outgoing():
        row: dict[str, Any] = {"id": reminder.id, "title": reminder.title, "text": reminder.text}
        row |= {"zone": reminder.zone, "email": reminder.email, "endpoint": reminder.endpoint}
        row |= {"quiet": reminder.quiet, **said_times(schedule)}
        if reminder.repeat_ms is not None:
            row["repeat"] = f"{reminder.repeat_ms / 1000:g}s"
        sheet.writerow({name: _safe(value) for name, value in row.items()})
    return made.getvalue()


def _safe(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def from_csv(text: str, now: int, usual: dict[str, Any]) -> list[Incoming]:
    """What the lines say; `usual` holds where a column is empty. `say` is a time in words."""
    if len(text.encode()) > BYTES:
        raise UsageError(f"a file of at most {BYTES} bytes")
    if "\0" in text:
        raise UsageError("this is no CSV: a text has no NUL character")
    sheet = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    unknown = sorted(set(sheet.fieldnames or ()) - set(COLUMNS))
    if unknown or "title" not in (sheet.fieldnames or ()):
        raise UsageError(
            f"the first line names the columns, `title` among them: {', '.join(COLUMNS)};"
            f" not {', '.join(map(repr, unknown)) or 'that'}"
        )
    try:
        return [_incoming(number, row, now, usual) for number, row in enumerate(sheet, 2)]
    except csv.Error as error:
        raise UsageError(f"this is no CSV: {error}") from None


def _incoming(number: int, row: dict[Any, Any], now: int, usual: dict[str, Any]) -> Incoming:
    from systems.reminders.words import read_when

    where = f"line {number}"
    if None in row or None in row.values():
        raise UsageError(f"{where}: it has other columns than the first line")
    given = {name: value.strip() for name, value in row.items() if value.strip()}
    given = {name: _plain(value) for name, value in given.items()}
    fields = {**usual, **given}
    id_ = fields.pop("id", None)
    if "say" in fields:
        try:
            fields |= read_when(fields.pop("say"), fields.get("zone", "UTC"), now)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
    return Incoming(where, id_, fields)


def _plain(value: str) -> str:
    return value[1:] if value.startswith("'") and value[1:].startswith(FORMULAS) else value
