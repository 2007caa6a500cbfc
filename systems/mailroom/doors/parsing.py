"""A mail as other programs write it, as messages of ours.

Who is in the envelope and in no header was meant to be seen by nobody else: each of those gets a message of
its own.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from email.utils import getaddresses, parseaddr
from typing import Any

import msgspec

from duework import UsageError
from systems.mailroom.mail import NewMessage, in_words


def read(content: bytes) -> EmailMessage:
    """The bytes of a mail; `UsageError` if they are none."""
    made = BytesParser(policy=default).parsebytes(content)
    if not isinstance(made, EmailMessage) or made.defects or not made.keys():
        raise UsageError("this is not a mail")
    return made


def messages(
    mail: EmailMessage, recipients: Sequence[str], content: bytes
) -> list[tuple[str, NewMessage]]:
    """Keys and messages: one for those whom the headers name, one for each of the others."""
    named = {each.lower() for _, each in getaddresses(_headers(mail, "to", "cc"))}
    seen = [each for each in recipients if each.lower() in named]
    hidden = [each for each in recipients if each.lower() not in named]
    try:
        key, facts = _key(mail, recipients, content), _facts(mail)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        # The library's own words for a part whose charset, type or encoding is none.
        raise UsageError(f"a part of this mail cannot be read: {error}") from None
    groups = ([(key, seen)] if seen else []) + [
        (f"{key}-{_short(each)}", [each]) for each in dict.fromkeys(hidden)
    ]
    return [(name, _message({**facts, "to": to})) for name, to in groups]


def _message(facts: dict[str, Any]) -> NewMessage:
    try:
        return msgspec.convert(facts, NewMessage)
    except msgspec.ValidationError as error:
        raise UsageError(in_words(str(error))) from None


def _headers(mail: EmailMessage, *names: str) -> list[str]:
    return [str(each) for name in names for each in mail.get_all(name, [])]


def _key(mail: EmailMessage, recipients: Sequence[str], content: bytes) -> str:
    """The program's own, or what stays the same when it sends the same mail again."""
    given = str(mail.get("Idempotency-Key", "")).strip()
    if given:
        return given
    same = str(mail.get("Message-ID", "")).strip().encode() or content
    whom = ",".join(sorted(each.lower() for each in recipients)).encode()
    return f"smtp-{hashlib.sha256(same + b'|' + whom).hexdigest()[:40]}"


def _short(address: str) -> str:
    return hashlib.sha256(address.lower().encode()).hexdigest()[:12]


def _facts(mail: EmailMessage) -> dict[str, Any]:
    facts: dict[str, Any] = {"subject": " ".join(str(mail.get("Subject", "")).split()) or "(none)"}
    sender, reply_to = (parseaddr(str(mail.get(name, "")))[1] for name in ("From", "Reply-To"))
    facts |= {"from": sender} if sender else {}
    facts |= {"reply_to": reply_to} if reply_to else {}
    for name, kind in (("text", "plain"), ("html", "html")):
        part = mail.get_body((kind,))
        if part is not None:
            facts[name] = part.get_content()
    if not facts.get("text") and not facts.get("html"):
        facts["text"] = " "
    files = [_file(number, each) for number, each in enumerate(mail.iter_attachments(), 1)]
    return facts | ({"attachments": files} if files else {})


def _file(number: int, part: Any) -> dict[str, str]:
    content = part.get_content() if not part.is_multipart() else part.as_bytes()
    raw = content.encode() if isinstance(content, str) else bytes(content)
    name = (part.get_filename() or f"part-{number}").replace("/", "_").replace("\\", "_")
    made = {"name": name.replace('"', "_"), "content": base64.b64encode(raw or b" ").decode()}
    return {**made, "type": part.get_content_type()}
