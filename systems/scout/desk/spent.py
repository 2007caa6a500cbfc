"""What scout has cost in the last week, by day, beside what it may: for the first page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from systems.scout.desk import charts
from systems.scout.economy import ledger
from systems.scout.part import part

DAYS = 7
SERVICES = {"llm": "run", "http": "did", "rows": "wait"}


def week(now: int) -> dict[str, Any]:
    """A chart of seven days, and what is left of today's budget."""
    today = datetime.fromtimestamp(now / 1000, UTC).date()
    days = [today - timedelta(days=ago) for ago in reversed(range(DAYS))]
    found = costs(days[0].isoformat())
    rows = [
        (
            "today" if day == today else f"{day:%a}",
            [found.get((day.isoformat(), service), 0.0) for service in SERVICES],
        )
        for day in days
    ]
    budget = ledger.LLM.status()
    limit = float(budget.limit)
    label = f"Dollars a day, of {limit:g} for models"
    return {
        "budget": budget,
        "costs": charts.stacked(
            rows, list(SERVICES.values()), label, limit, f"ceiling {limit:.2f}"
        ),
    }


def costs(since: str) -> dict[tuple[str, str], float]:
    """Dollars by day and service."""
    rows = part.app.read(
        "select day, service, sum(cost) as cost from scout_cost_day where day >= :since"
        " group by day, service",
        since=since,
    )
    return {(row.day, row.service): float(row.cost) / 1_000_000 for row in rows}
