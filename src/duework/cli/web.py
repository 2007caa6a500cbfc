"""`duework web` and `duework tokens`: the pages, served to a browser, and who may come in."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import socket
from pathlib import Path
from typing import Any

import click

from duework import App, Error, UsageError
from duework.cli.base import closing, examples, exit_code, on_database, target
from duework.cli.out import Out, ago, fail
from duework.db.urls import database_file
from duework.web.tokens import FIRST, SCOPES, Tokens

PORT = 8377
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


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
            _serve(app, given)
    except Error as error:
        context.exit(fail(error.code, str(error), exit_code(error), as_json=False))


def _serve(app: App, given: dict[str, Any]) -> None:
    names, host = _names(given["public_names"]), given["host"]
    if not _is_loopback(host) and not names:
        message = (
            f"to listen at {host}, say which name it has there: --public-name work.example.com"
        )
        raise UsageError(message)
    pages = app.asgi(public_names=names)
    import uvicorn

    made = Tokens(app)
    file = Path(given["token_file"]) if given["token_file"] else _token_file(app)
    if made.make_first(file):
        click.echo(f"The token {FIRST!r} (scope admin) is in {file}")
    listening = _listen(host, given["port"])
    port = listening.getsockname()[1]
    shown = f"https://{names[0]}" if names else f"http://{_bracketed(host)}:{port}"
    click.echo(f"Sign in, once and within 15 minutes: {shown}/login?code={made.link()}")
    config = uvicorn.Config(
        pages,
        log_level="warning",
        limit_concurrency=500,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=5,
        # Pages send nothing over their sockets.
        ws_max_size=64 * 1024,
        server_header=False,
        proxy_headers=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _names(given: tuple[str, ...]) -> list[str]:
    for name in given:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} is no name of a host: write work.example.com, without a port"
            )
    return list(given)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    """Bound before anything is printed: a link to a server that could not start helps nobody."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, number)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        # From here on whoever opens the link waits, and is not refused.
        made.listen(128)
    except OSError as error:
        message = f"cannot listen at {_bracketed(host)}:{port}: {error.strerror or error}"
        raise UsageError(message) from error
    return made


def _token_file(app: App) -> Path:
    """Beside a database that is a file; else in the folder for such things, of this user alone."""
    if (file := database_file(app.url)) is not None:
        return Path(f"{file}.token")
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or Path.home() / ".duework") / "duework"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make {folder} for the first token: {error.strerror}; name a --token-file"
        raise UsageError(message) from error
    return folder / f"token-{hashlib.sha256(app.url.encode()).hexdigest()[:12]}"


# --- who may come in


@click.group()
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
