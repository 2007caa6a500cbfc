"""`duework countdowns`."""

from __future__ import annotations

import click

from duework import App
from duework.cli.base import on_database
from duework.cli.out import Out

from . import verbs


@click.group("countdowns")
def commands() -> None:
    """Look at countdowns."""


@commands.command("list")
@on_database()
def list_(app: App, out: Out) -> None:
    """List countdowns by name."""
    with app.wiring.engine.database.reading() as tx:
        for name, state, remaining in verbs.listed(tx):
            out.say(f"{name} {state} {remaining}")
