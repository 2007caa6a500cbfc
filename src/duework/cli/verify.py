"""`duework verify`: the invariants, on any live database."""

from __future__ import annotations

from dataclasses import asdict

import click

from duework import App
from duework.cli.base import FAILED, OK, examples, on_database
from duework.cli.out import Out

_BOUND = 1000


@click.command(epilog=examples("duework verify", "duework verify --full --json"))
@click.option("--full", is_flag=True, help="All payloads, and the database's own integrity check.")
@on_database()
def verify(app: App, out: Out, *, full: bool) -> int:
    """Check the invariants in one consistent view, read-only; exit code 1 if one is violated.

    Safe on a database in full use. Without --full, the checksums of the newest payloads only.
    """
    with out.progress("verifying") as move:
        findings = app.admin.verify(full=full, tell=lambda says: move(1, description=says))
    broken = [each for each in findings if each.violations]
    if out.as_json:
        out.json({"ok": not broken, "findings": [asdict(each) for each in findings]})
        return FAILED if broken else OK
    rows = [
        (
            "problem" if each.violations else "ok",
            each.says,
            each.checked,
            f"{each.violations}+" if each.violations >= _BOUND else each.violations,
        )
        for each in findings
    ]
    out.table(["", "*invariant", ">checked", ">broken"], rows)
    for each in broken:
        out.say(f"{each.name}: {', '.join(each.sample)}", "red")
    out.say(f"{len(broken)} of {len(findings)} invariants are violated" if broken else "all hold")
    return FAILED if broken else OK
