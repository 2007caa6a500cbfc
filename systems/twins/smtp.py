"""A receiver of mail by SMTP: AUTH, size, greylisting, refusals, and connections that break.

It speaks on a port of its own, `address`; over HTTP there are the control routes alone. A fault plan
names the commands `ehlo`, `auth`, `mail`, `rcpt` and `data`; `data` with `drop_after` is the mail
that was taken and whose sender does not know it. The ledger has one entry for each message.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from systems.twins.kit.app import Door, Twin
from systems.twins.kit.faults import Fault

if TYPE_CHECKING:
    from systems.twins.kit.serve import Served

COMMANDS = ("ehlo", "auth", "mail", "rcpt", "data")
HOST = "127.0.0.1"
# So many ports behind the first twin, out of the way of the others.
APART = 50
TEXTS = {
    421: "4.3.2 Service not available, closing transmission channel",
    450: "4.2.1 Mailbox unavailable",
    451: "4.3.0 Local error in processing",
    452: "4.3.1 Insufficient system storage",
    535: "5.7.8 Authentication credentials invalid",
    550: "5.1.1 Mailbox unavailable",
    552: "5.2.2 Exceeded storage allocation",
    554: "5.7.1 Message rejected",
}


class Smtp(Twin):
    name = "smtp"
    about: ClassVar = "a receiver of mail: AUTH, size, greylisting, refusals"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.address = (HOST, 0)
        self._server: asyncio.Server | None = None
        self._connections: set[SMTP] = set()

    def make_doors(self) -> list[Door]:
        return []

    def other_routes(self) -> tuple[str, ...]:
        return COMMANDS

    def start_over(self) -> None:
        self.users = {"demo": "secret"}
        self.auth_required = True
        self.size_limit = 10 * 1024 * 1024
        self.most_recipients = 100
        self.greylist_ms = 0
        self._first_seen: dict[tuple[str, str], int] = {}
        # What is answered to RCPT for these addresses.
        self.answers = {
            "nobody@demo.example": "550 5.1.1 The email account does not exist",
            "full@demo.example": "452 4.2.2 The mailbox is full",
        }

    def samples(self) -> dict[str, str]:
        (user, password), (host, port) = next(iter(self.users.items())), self.address
        return {"address": f"{host}:{port}", "user": user, "password": password}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "set_answer": self.set_answer,
            "set_greylist": self.set_greylist,
            "set_auth": self.set_auth,
            "set_size": self.set_size,
        }

    # Switches.

    def set_answer(self, address: str, answer: str) -> None:
        """What RCPT gets for an address, such as "550 5.1.1 Gone"."""
        if not answer[:3].isdecimal():
            raise ValueError("an answer begins with its code")
        self.answers[address.lower()] = answer

    def set_greylist(self, seconds: float) -> None:
        """A sender that is new to a recipient has to come again after this time."""
        self.greylist_ms = int(seconds * 1000)

    def set_auth(self, *, required: bool) -> None:
        self.auth_required = required

    def set_size(self, limit: int) -> None:
        """For connections from now on."""
        self.size_limit = limit

    # The server.

    async def open(self, served: Served) -> None:
        loop = asyncio.get_running_loop()
        context = served.authority().context() if self.name in served.https else None

        def connection() -> SMTP:
            return SMTP(
                self,
                data_size_limit=self.size_limit,
                enable_SMTPUTF8=True,
                hostname="twin.test",
                ident="Twin ESMTP",
                tls_context=context,
                auth_require_tls=context is not None,
                authenticator=self._authenticate,
                loop=loop,
            )

        port = served.port + APART if served.port else 0
        self._server = await loop.create_server(connection, HOST, port)
        self.address = self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            if connection.transport is not None:
                connection.transport.abort()  # type: ignore[attr-defined]

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        asked = self.log.open(self.now(), "auth", mechanism)
        fault = self.faults.take("auth")
        if fault is not None:
            asked.fault, asked.status = fault.do, fault.status
            text = _text(fault) if fault.do == "status" else f"454 {TEXTS[451]}"
            return AuthResult(success=False, handled=False, message=text)
        known = False
        if isinstance(data, LoginPassword):
            asked.notes["user"] = data.login.decode(errors="replace")
            password = data.password.decode(errors="replace")
            known = self.users.get(asked.notes["user"]) == password
        asked.status = 235 if known else 535
        return AuthResult(success=known, handled=False, auth_data=data if known else None)

    # What aiosmtpd calls for each command; the names are its own.

    async def handle_EHLO(  # noqa: N802
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        hostname: str,
        responses: list[str],
    ) -> list[str]:
        self._connections.add(server)
        session.host_name = hostname
        answer = await self._command("ehlo", server, lambda: "250 OK")
        return responses if answer.startswith("250") else [answer]

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        def take() -> str:
            if self.auth_required and not session.authenticated:
                return "530 5.7.0 Authentication required"
            envelope.mail_from = address
            envelope.mail_options.extend(options)
            return "250 2.1.0 OK"

        return await self._command("mail", server, take)

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        def take() -> str:
            if len(envelope.rcpt_tos) >= self.most_recipients:
                return "452 4.5.3 Too many recipients"
            answer = self.answers.get(address.lower()) or self._greylisted(envelope, address)
            if answer is None:
                envelope.rcpt_tos.append(address)
                envelope.rcpt_options.extend(options)
            return answer or "250 2.1.5 OK"

        return await self._command("rcpt", server, take, to=address)

    def _greylisted(self, envelope: Envelope, address: str) -> str | None:
        now = self.now()
        pair = (str(envelope.mail_from).lower(), address.lower())
        wait = self._first_seen.setdefault(pair, now) + self.greylist_ms - now
        return f"451 4.7.1 Greylisted, try again in {-(-wait // 1000)} s" if wait > 0 else None

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        def take() -> str:
            content = envelope.content
            raw = content.encode() if isinstance(content, str) else content or b""
            message = email.message_from_bytes(raw, policy=email.policy.default)
            facts = {
                "key": str(message["message-id"] or "") or None,
                "sender": envelope.mail_from,
                "to": ",".join(envelope.rcpt_tos),
                "subject": str(message["subject"] or ""),
                "size": len(raw),
                "tls": session.ssl is not None,
                "headers": {name: str(value) for name, value in message.items()},
            }
            entry = self.ledger.add("mail", self.now(), **facts)
            return f"250 2.0.0 OK queued as {entry['n']:08X}"

        return await self._command("data", server, take)

    async def _command(
        self, route: str, server: SMTP, take: Callable[[], str], **notes: str
    ) -> str:
        """Answer a command, or let it go wrong as the plan says."""
        asked = self.log.open(self.now(), route, route.upper())
        asked.notes.update(notes)
        fault = self.faults.take(route)
        if fault is None:
            answer = take()
            asked.status = int(answer[:3])
            return answer
        asked.fault = fault.do
        answer = take() if fault.effect else ""
        match fault.do:
            case "drop_before" | "drop_after" | "cut":
                await _gone(server)
            case "never":
                await asyncio.Event().wait()
            case "status":
                asked.status = fault.status
                return _text(fault)
            case "malformed":
                return "2x0-?"
            case "delay" | "slow_body":
                await asyncio.sleep(fault.seconds)
        answer = answer or take()
        asked.status = int(answer[:3])
        return answer


def _text(fault: Fault) -> str:
    text = fault.body if isinstance(fault.body, str) else TEXTS.get(fault.status)
    kind = fault.status // 100
    return f"{fault.status} {text or f'{kind}.0.0 Refused'}"


async def _gone(server: SMTP) -> None:
    """Cut the connection; whoever serves it is cancelled by that."""
    assert server.transport is not None
    server.transport.abort()  # type: ignore[attr-defined]
    await asyncio.Event().wait()
