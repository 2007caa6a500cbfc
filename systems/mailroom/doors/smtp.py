"""Mail in by SMTP: `duework mailroom smtp --listen 127.0.0.1:2525`, a process of its own.

A program signs in with its tenant's name and one of its keys. A mail is taken, 250, once it is a row; what
cannot be taken now is told to come again (4xx), what never can be is refused (5xx). The same Message-ID is
the same mail, so a program that lost our answer may repeat it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
from typing import Any

from duework import Conflict, Error, UsageError
from systems.mailroom.doors.parsing import messages, read
from systems.mailroom.keys import tenant_of
from systems.mailroom.mail import MOST_RECIPIENTS
from systems.mailroom.part import part
from systems.mailroom.posting import post_many
from systems.mailroom.tenant import LimitReached

LOG = logging.getLogger("duework.mailroom.smtp")


class Door:
    """What aiosmtpd calls."""

    def authenticate(self, *given: Any) -> Any:
        """User is the tenant, password one of its keys."""
        from aiosmtpd.smtp import AuthResult, LoginPassword

        data = given[-1]
        if not isinstance(data, LoginPassword):
            return AuthResult(success=False, handled=False)
        user, key = _text(data.login), _text(data.password)
        found = tenant_of(part.app, key)
        if found is None or user.lower() not in {found, "apikey"}:
            return AuthResult(success=False, handled=False)
        return AuthResult(success=True, auth_data=found)

    async def handle_MAIL(self, *given: Any) -> str:  # noqa: N802 - its own name
        """Nobody goes further without having signed in."""
        _, session, envelope, address, options = given
        if not session.authenticated:
            return "530 5.7.0 Authentication required"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, *given: Any) -> str:  # noqa: N802 - its own name
        _, _, envelope, address, _ = given
        if len(envelope.rcpt_tos) >= MOST_RECIPIENTS:
            return f"452 4.5.3 at most {MOST_RECIPIENTS} recipients"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: ARG002, N802 - its own name
        """The mail is a row when this says 250."""
        if not session.authenticated:
            return "530 5.7.0 Authentication required"
        try:
            count = await asyncio.to_thread(
                self._take, session.auth_data, list(envelope.rcpt_tos), bytes(envelope.content)
            )
        except LimitReached as limit:
            return f"452 4.7.1 {limit}"
        except (UsageError, Conflict) as error:
            return f"554 5.6.0 {_line(str(error))}"
        except Error as error:
            LOG.warning("a mail was put off: %s", error)
            return "451 4.3.0 not now, come again"
        return f"250 2.0.0 queued as {count}"

    def _take(self, tenant: str, recipients: list[str], content: bytes) -> str:
        found = post_many(part.app, tenant, messages(read(content), recipients, content))
        return ", ".join(str(each.id) for each in found)


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _line(text: str) -> str:
    """One line of ASCII, as an answer of SMTP is."""
    return " ".join(text.split()).encode("ascii", "replace").decode()[:300]


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def encryption(cert: str | None, key: str | None) -> ssl.SSLContext | None:
    if cert is None:
        return None
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(cert, key)
    return made


async def serve(host: str, port: int, tls: ssl.SSLContext | None = None) -> asyncio.Server:
    """Listen; the server, which the caller closes. AUTH is always required, and TLS first off loopback."""
    from aiosmtpd.smtp import SMTP

    if tls is None and not is_loopback(host):
        raise UsageError("passwords do not go over the network in the open: give --cert and --key")
    loop, door = asyncio.get_running_loop(), Door()

    def connection() -> Any:
        return SMTP(
            door,
            data_size_limit=part.settings.smtp_size,
            enable_SMTPUTF8=True,
            hostname="mailroom",
            ident="Mailroom",
            auth_require_tls=tls is not None,
            require_starttls=tls is not None,
            tls_context=tls,
            authenticator=door.authenticate,
            timeout=60,
            loop=loop,
        )

    return await loop.create_server(connection, host, port)
