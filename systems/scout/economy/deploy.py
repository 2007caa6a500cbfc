"""What is said before a first deployment: which crons run, why, and what a month is expected to cost."""

from __future__ import annotations

from typing import Any

from duework import Schedule
from systems.scout.economy import ceiling, ledger
from systems.scout.part import part

EVERY_MINUTE = {"* * * * *", "*/1 * * * *", "0-59 * * * *"}


def doubts(schedules: list[Schedule]) -> list[str]:
    """Crons that nobody has justified: a sentence for each."""
    found = []
    for each in schedules:
        if not each.why:
            found.append(f"{each.key} runs at {each.rule} without a written reason")
        if not each.owner:
            found.append(f"{each.key} belongs to nobody")
        if each.rule in EVERY_MINUTE:
            found.append(f"{each.key} runs every minute: every five, or slower")
    return found


def expected() -> dict[str, Any]:
    """What to write down before anything runs."""
    schedules = part.app.schedules(prefix="scout.")
    return {
        "crons": [
            {"key": each.key, "rule": each.rule, "owner": each.owner, "why": each.why}
            for each in schedules
        ],
        "doubts": doubts(schedules),
        "most_a_month": {
            "llm_dollars": float(ledger.LLM.status().limit * 31),
            "cycles": ceiling.most_cycles(),
        },
    }
