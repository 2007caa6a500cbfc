"""SMTP: one connection for each mail. It knows no key: what may have arrived is never sent again.

Once the data has gone out and no answer came, the message is unsure, and an operator decides.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from email.message import EmailMessage
from typing import Any, ClassVar
from urllib.parse import urlsplit

from duework import Accepted, Fail, Pending, Rejected, Sent, Tick, http
from systems.mailroom.mail import Attachment, Mail
from systems.mailroom.providers import Provider

PERMANENT = 500


class Smtp(Provider):
    name: ClassVar[str] = "smtp"

    def paces(self) -> tuple[Any, Any]:
        chosen = self._settings()
        return Tick(chosen.submits, f"{chosen.every_seconds}s"), None

    @staticmethod
    def ledger_key(key: str) -> str:
        return message_id(key)

    async def submit(self, mail: Mail, key: str) -> Accepted | Sent | Rejected:
        import aiosmtplib

        chosen, content = self._settings(), self._written(mail, key)
        place = urlsplit(chosen.url)
        client = aiosmtplib.SMTP(
            hostname=place.hostname,
            port=place.port or (465 if place.scheme == "smtps" else 587),
            use_tls=place.scheme == "smtps",
            timeout=10,
        )
        try:
            await client.connect()
            await _login(client, chosen.user, chosen.secret)
            await client.mail(mail.sender)
            for each in mail.to:
                await client.rcpt(each)
        except aiosmtplib.SMTPResponseException as error:
            client.close()
            raise _refused(error.code, error.message) from None
        except UnicodeError:
            client.close()
            raise Fail("an address has letters that this server does not take") from None
        except (aiosmtplib.SMTPException, OSError) as error:
            client.close()
            raise http.Unsent(f"no mail was handed over: {type(error).__name__}") from error
        except http.HttpError:
            client.close()
            raise
        return await self._data(client, content)

    def _written(self, mail: Mail, key: str) -> bytes:
        """Before anybody is asked: what cannot be written is known not to be sent."""
        try:
            return written(mail, key, self.files(mail))
        except (ValueError, TypeError, LookupError) as error:
            raise Fail(f"it cannot be written as a mail: {error}"[:500]) from None

    async def _data(self, client: Any, content: bytes) -> Sent:
        import aiosmtplib

        try:
            await client.data(content)
        except aiosmtplib.SMTPResponseException as error:
            raise _refused(error.code, error.message) from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise http.LostReply(f"no answer to the mail: {type(error).__name__}") from error
        finally:
            client.close()
        return Sent()

    async def poll(self, handle: str) -> Pending | Sent | Rejected:  # noqa: ARG002 - never asked
        return Sent()


def message_id(key: str) -> str:
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:40]}@mailroom.invalid>"


async def _login(client: Any, user: str, password: str) -> None:
    import aiosmtplib

    if not user:
        return
    try:
        await client.login(user, password)
    except aiosmtplib.SMTPResponseException as error:
        # The account is wrong, not the mail: it waits for an operator.
        raise http.HttpError(f"{error.code}: {error.message}"[:500]) from None


def written(mail: Mail, key: str, files: Sequence[tuple[Attachment, str]] = ()) -> bytes:
    """A mail as it goes over the wire."""
    made = EmailMessage()
    made["Message-ID"] = message_id(key)
    made["From"], made["To"], made["Subject"] = mail.sender, ", ".join(mail.to), mail.subject
    if mail.reply_to:
        made["Reply-To"] = mail.reply_to
    if mail.text or not mail.html:
        made.set_content(mail.text)
    if mail.html:
        (made.add_alternative if mail.text else made.set_content)(mail.html, subtype="html")
    for each, content in files:
        kind, _, sub = each.type.partition("/")
        made.add_attachment(
            base64.b64decode(content), maintype=kind, subtype=sub, filename=each.name
        )
    return made.as_bytes()


def _refused(code: int, text: str) -> Exception:
    """A 5xx is for good; a 4xx asks to come back."""
    words = f"{code}: {text}"[:500]
    return Fail(words) if code >= PERMANENT else http.HttpError(words)
