"""`duework mailroom …`: send a mail, look at mails and tenants, hand out keys."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
import ssl

import click
import msgspec

from systems.mailroom import board, keys
from systems.mailroom.doors import smtp as door
from systems.mailroom.hooks import outgoing
from systems.mailroom.mail import NewMessage, in_words
from systems.mailroom.part import part
from systems.mailroom.posting import post
from systems.mailroom.tenant import LimitReached, Tenant, check_tenant


@part.command
@click.argument("tenant")
@click.argument("to")
@click.argument("subject")
@click.option("--text", default="", help="What it says; the subject if left out.")
@click.option(
    "--key", default="", help="The same key is the same mail. Without one it is a new mail."
)
def send(tenant: str, to: str, subject: str, text: str, key: str) -> None:
    """Post one mail: duework mailroom send acme ada@example.org "Hello"."""
    try:
        given = {"to": to, "subject": subject, "text": text or subject}
        new = msgspec.convert(given, NewMessage)
        found = post(part.app, tenant, key or f"cli-{secrets.token_hex(8)}", new)
    except (msgspec.ValidationError, LimitReached) as error:
        raise click.ClickException(in_words(str(error))) from None
    word = "was there already" if found.existed else "is queued"
    click.echo(f"message {found.id} of {tenant} {word}")


@part.command
@click.command(name="list")
@click.option("--tenant", default=None, help="Of one tenant alone.")
@click.option("--state", default=None, type=click.Choice(board.STATES))
@click.option("--limit", default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each.")
def list_(*, tenant: str | None, state: str | None, limit: int, as_json: bool) -> None:
    """The newest mails: duework mailroom list --tenant acme --state failed."""
    found = board.listed(part.app, tenant=tenant, state=state, limit=limit)
    if not found and not as_json:
        click.echo("no such mails", err=True)
    for each in found:
        if as_json:
            click.echo(json.dumps(each))
            continue
        error = f"  {each['error']}" if each["error"] else ""
        click.echo(
            f"{each['id']:>8}  {each['state']:<9}  {each['tenant']:<10}  {each['subject']}{error}"
        )


@part.command
def tenants() -> None:
    """Every tenant, with what it posted today, its limit and how many addresses it must not use."""
    found = board.tenants(part.app)
    if not found:
        click.echo("no tenants", err=True)
    for each in found:
        click.echo(
            f"{each['name']:<20} {each['posted']:>7} of {each['limit']} today,"
            f" {each['suppressed']} suppressed"
        )


@part.command
@click.argument("tenant")
@click.option("--name", default="default", show_default=True, help="What the key is called.")
@click.option("--revoke", is_flag=True, help="Take away the keys of this name instead.")
def key(tenant: str, name: str, *, revoke: bool) -> None:
    """Make a key by which a program posts mail; it is shown once."""
    if revoke:
        click.echo(f"{keys.revoke(part.app, tenant, name)} taken away")
        return
    click.echo(keys.new_key(part.app, tenant, name))


@part.command
@click.argument("tenant")
@click.argument("address")
@click.option("--why", default="asked for", show_default=True)
@click.option("--undo", is_flag=True, help="Take it off the list.")
def suppress(tenant: str, address: str, why: str, *, undo: bool) -> None:
    """Write to this address no more: duework mailroom suppress acme ada@example.org."""
    handle = part.app.object(Tenant, check_tenant(tenant))
    if undo:
        found = handle.allow(address).result()
        click.echo("taken off the list" if found else "it was not on the list")
        return
    handle.suppress(address, why, part.app.now()).result()
    click.echo(f"{address} is on the list of {tenant}")


@part.command
@click.argument("tenant")
@click.argument("messages", type=int)
def limit(tenant: str, messages: int) -> None:
    """How many messages a day this tenant may post."""
    part.app.object(Tenant, check_tenant(tenant)).set_limit(messages).result()
    click.echo(f"{tenant} may post {messages} a day")


@part.command
@click.option("--listen", default="127.0.0.1:2525", show_default=True, metavar="HOST:PORT")
@click.option("--cert", type=click.Path(exists=True), help="For STARTTLS; needed off loopback.")
@click.option("--key", "private", type=click.Path(exists=True), help="The certificate's key.")
def smtp(listen: str, cert: str | None, private: str | None) -> None:
    """Take mail by SMTP: user is the tenant, password one of its keys. Runs until it is stopped."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise click.UsageError("--listen takes HOST:PORT, such as 127.0.0.1:2525")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_listen(host.strip("[]"), int(port), door.encryption(cert, private)))


async def _listen(host: str, port: int, tls: ssl.SSLContext | None) -> None:
    server = await door.serve(host, port, tls)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    place = server.sockets[0].getsockname()
    click.echo(
        f"SMTP at {place[0]}:{place[1]}; AUTH required, {part.settings.smtp_size} bytes at most"
    )
    async with server:
        await stop.wait()


@part.command
@click.argument("tenant")
@click.argument("url", required=False)
@click.option("--drop", is_flag=True, help="Tell it no more.")
def webhook(tenant: str, url: str | None, *, drop: bool) -> None:
    """Tell a tenant by webhook what became of its mail; prints the secret, once."""
    if drop:
        outgoing.drop_hook(tenant)
        click.echo("told no more")
    elif url is None:
        found = outgoing.hook_of(tenant)
        click.echo(found.url if found else "none")
    else:
        click.echo(outgoing.set_hook(check_tenant(tenant), url).secret)


@part.command
@click.option("--tenant", default=None, help="Of one tenant alone.")
def retry(*, tenant: str | None) -> None:
    """Queue every failed mail again."""
    click.echo(f"{board.retry_failed(part.app, tenant)} queued again")


@part.command
@click.argument("message", type=int)
def show(message: int) -> None:
    """One mail: its state, whom it was offered to, and what was reported of it."""
    found = board.found(message)
    shown = board.shown(found)
    click.echo(f"{found.id}  {found.state}  {shown['subject']}  {found.error or ''}")
    for each in board.story(found):
        click.echo(f"  {each['at']}  {each['who']} {each['what']}  {each['detail'] or ''}")
