"""`duework doctor`: whether all of it can be left alone."""

from __future__ import annotations

from dataclasses import asdict

import click

from duework import App
from duework.cli.base import FAILED, OK, examples, on_database
from duework.cli.out import Out

ORDER = ("problem", "warning", "ok")


@click.command(epilog=examples("duework doctor --app shop.work:app", "duework doctor --strict"))
@click.option("--strict", is_flag=True, help="A warning is a failure, too.")
@on_database()
def doctor(app: App, out: Out, *, strict: bool) -> int:
    """Look at the database and at what is declared on it; what wants a look comes first.

    Every schedule has an owner, a check that finds out cheaply that there is nothing to do, and a
    written reason if it runs each minute. Rows are let go of, commits survive, the clock is right,
    the disk has room, and there is a backup. Changes nothing. Exit code 1 if there is a problem.
    """
    checks = sorted(app.admin.doctor(), key=lambda each: ORDER.index(each.fitness))
    bad = {"problem", "warning"} if strict else {"problem"}
    failed = any(each.fitness in bad for each in checks)
    if out.as_json:
        out.json({"ok": not failed, "checks": [asdict(each) for each in checks]})
        return FAILED if failed else OK
    rows: list[tuple[object, ...]] = []
    for each in checks:
        rows.append((each.fitness, each.name, each.value))
        if each.advice:
            rows.append(("", "", each.advice))
    out.table(["!", "!what", "*found, and what to do"], rows)
    return FAILED if failed else OK
