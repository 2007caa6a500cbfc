"""`duework web` and `duework tokens`: the pages, served to a browser, and who may come in."""

from __future__ import annotations

from typing import Any

import click

from duework import App, Error
from duework.cli.base import Group, closing, examples, exit_code, on_database, target
from duework.cli.out import Out, ago, fail
from duework.web.server import PORT, Address, PageServer
from duework.web.tokens import SCOPES, Tokens


@click.command(
    epilog=examples(
        "duework web shop.work:app",
        "duework web --url sqlite:///work.db --port 9000",
        "duework web shop.work:app --host 0.0.0.0 --public-name work.example.com",
    )
)
@click.argument("name", metavar="[MODULE:APP]", required=False)
@click.option("--url", metavar="URL", help="The database [$DUEWORK_URL or ./duework.db].")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--public-name",
    "public_names",
    metavar="NAME",
    multiple=True,
    help="A name that it answers to besides localhost; needed to listen elsewhere.",
)
@click.option("--token-file", metavar="FILE", help="Where the first token goes [beside the file].")
@click.pass_context
def web(context: click.Context, /, name: str | None, **given: Any) -> None:
    """Serve the pages: what is going on, jobs, retry, cancel, pause.

    It runs no jobs. Everybody needs a token, on this machine too: the first start makes one in a
    file that only its owner can read, and each start prints a link that signs in once. Listening
    elsewhere than at the loopback address needs --public-name, and a proxy that speaks HTTPS.
    """
    try:
        with closing(target(name, given["url"])) as app:
            app.admin.require()
            address = Address(
                host=given["host"],
                port=given["port"],
                public_names=given["public_names"],
                token_file=given["token_file"],
            )
            PageServer(app, address, click.echo).run()
    except Error as error:
        context.exit(fail(error.code, str(error), exit_code(error), as_json=False))


# --- who may come in


@click.group(cls=Group)
def tokens() -> None:
    """Make, list and revoke the tokens with which people and programs use the pages."""


@tokens.command(
    epilog=examples(
        "duework tokens add ada --scope operate",
        "duework tokens add grafana --scope read --expires 90d",
    )
)
@click.argument("name")
@click.option("--scope", type=click.Choice(SCOPES), default="read", show_default=True)
@click.option("--expires", metavar="TIME", help="For how long it is good, as 90d [for ever].")
@on_database()
def add(app: App, out: Out, name: str, scope: str, expires: str | None) -> None:
    """Make a token and print it, once: the database keeps its hash.

    read looks, operate also retries, cancels and pauses, admin may do everything.
    """
    secret = Tokens(app).add(name, scope, expires)
    if out.as_json:
        out.json({"name": name, "scope": scope, "token": secret})
    else:
        out.console.print(secret, soft_wrap=True)


@tokens.command("list", epilog=examples("duework tokens list", "duework tokens list --json"))
@on_database()
def list_(app: App, out: Out) -> None:
    """List tokens, without their secrets. With --json: one object per line."""
    found, now = Tokens(app).all(), app.now()
    if out.as_json:
        for each in found:
            out.json(
                {
                    "name": each.name,
                    "scope": each.scope,
                    "created": each.created,
                    "expires": each.expires,
                    "revoked": each.revoked,
                }
            )
        return
    if not found:
        out.say("no tokens yet")
        return
    rows = [
        (
            *(each.name, each.scope, ago(each.created, now), ago(each.expires, now)),
            "revoked" if each.revoked is not None else "",
        )
        for each in found
    ]
    out.table(["name", "!scope", "!made", "!expires", "note"], rows)


@tokens.command(epilog=examples("duework tokens revoke ada"))
@click.argument("name")
@on_database()
def revoke(app: App, out: Out, name: str) -> None:
    """Refuse a token from now on, and end every session that was opened with it."""
    Tokens(app).revoke(name)
    if out.as_json:
        out.json({"name": name, "state": "revoked"})
    else:
        out.say(f"{name} revoked")
