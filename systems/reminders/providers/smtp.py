"""SMTP: one connection for each mail. It knows no key: what may have arrived is not sent again."""

from __future__ import annotations

import hashlib
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from duework import Fail, Retry, Secret, http

PERMANENT = 500


async def send(url: str, user: str, password: Secret, mail: dict[str, Any], key: str) -> None:
    """Hand a mail over; returns when it was taken."""
    import aiosmtplib

    place = urlsplit(url)
    client = aiosmtplib.SMTP(
        hostname=place.hostname,
        port=place.port or (465 if place.scheme == "smtps" else 587),
        use_tls=place.scheme == "smtps",
        timeout=10,
    )
    try:
        await client.connect()
        if user:
            await client.login(user, password.reveal())
        await client.mail(_bare(mail["from"]))
        for each in mail["to"]:
            await client.rcpt(each)
    except aiosmtplib.SMTPResponseException as error:
        client.close()
        raise _refused(error.code, error.message) from None
    except (aiosmtplib.SMTPException, OSError) as error:
        client.close()
        raise Retry(None, f"no mail was handed over: {type(error).__name__}") from error
    try:
        await client.data(written(mail, key))
    except aiosmtplib.SMTPResponseException as error:
        raise _refused(error.code, error.message) from None
    except (aiosmtplib.SMTPException, OSError) as error:
        raise http.LostReply(f"no answer to the mail: {type(error).__name__}") from error
    finally:
        client.close()


def written(mail: dict[str, Any], key: str) -> bytes:
    made = EmailMessage()
    made["Message-ID"] = message_id(key)
    made["From"], made["To"], made["Subject"] = mail["from"], ", ".join(mail["to"]), mail["subject"]
    made.set_content(mail["text"])
    return made.as_bytes()


def message_id(key: str) -> str:
    """By which the receiver's account knows a mail."""
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:40]}@reminders.invalid>"


def _bare(sender: str) -> str:
    return sender.rpartition("<")[2].rstrip(">").strip()


def _refused(code: int, text: str) -> Exception:
    words = f"{code}: {text}"[:500]
    return Fail(words) if code >= PERMANENT else Retry(None, words)
