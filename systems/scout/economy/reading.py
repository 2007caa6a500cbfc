"""What was used and what it cost, for pages, routes and commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from systems.scout.economy import ceiling, figures, ledger
from systems.scout.part import part, settings

DAYS, CALLS = 31, 50
LATEST = (
    "select debate, number, step, model, state, reserved, cost, tokens_in, tokens_out, why, at"
    " from scout_cost order by at desc, debate desc, number desc limit :most"
)
TABLES = Path(__file__).parents[1] / "tables"


def costs() -> dict[str, Any]:
    """The budget, the ceiling, the days, and the latest calls of a model."""
    now = part.app.now()
    cycles, skipped = ceiling.used(part.app.read, now)
    status = ledger.LLM.status()
    return {
        "analyst": settings().llm_model if settings().llm_key else "rules",
        "budget": {
            "limit": float(status.limit),
            "spent": float(status.spent),
            "reserved": float(status.reserved),
            "turns_at": status.turns_at,
        },
        "ceiling": {"cycles": cycles, "skipped": skipped, "most": ceiling.most_cycles()},
        "days": [row._asdict() for row in days()],
        "calls": [row._asdict() for row in calls()],
    }


def days() -> list[Any]:
    """By day and service, the newest first."""
    return part.app.read(
        "select day, service, what, calls, units_in, units_out, cost from scout_cost_day"
        " order by day desc, service, what limit :most",
        most=DAYS * 10,
    )


def calls() -> list[Any]:
    """Calls of a model, the newest first."""
    return part.app.read(LATEST, most=CALLS)


def health() -> dict[str, Any]:
    """The figures, counted because somebody asks."""
    return figures.look()


def tables() -> list[str]:
    """The tables that scout makes, in order."""
    files = sorted(TABLES.glob("*.sql"))
    return [
        name for file in files for name in re.findall(r"create table (scout_\w+)", file.read_text())
    ]
