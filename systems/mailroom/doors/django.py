"""Django's mail through the mailroom: five lines in settings.py, and `send_mail` is durable.

    EMAIL_BACKEND = "systems.mailroom.doors.django.EmailBackend"
    MAILROOM_URL = "http://127.0.0.1:8377"
    MAILROOM_KEY = "mr_…"                                  # duework mailroom key acme

From Django 6.1 on the same as an entry of MAILERS, with `url` and `key` among its OPTIONS. A message is
taken when `send` returns: what becomes of it is the mailroom's to see to. Give a header `Idempotency-Key` to
messages that may be sent again by a retry of yours.
"""

from __future__ import annotations

import http.client
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Sequence
from email.message import EmailMessage as Parsed
from email.parser import BytesParser
from email.policy import default
from typing import Any

import msgspec
from django.conf import settings  # type: ignore[import-untyped]
from django.core.mail import EmailMessage  # type: ignore[import-untyped]
from django.core.mail.backends.base import BaseEmailBackend  # type: ignore[import-untyped]

from systems.mailroom.doors.parsing import messages

TRIES = 3


class NotTaken(Exception):
    """The mailroom has not taken a message; it says why."""


class EmailBackend(BaseEmailBackend):  # type: ignore[misc]
    """Posts each message to the mailroom's API, under a key that stays the same over its tries."""

    def __init__(self, fail_silently: bool = False, **options: Any) -> None:  # noqa: FBT001, FBT002
        super().__init__(fail_silently=fail_silently)
        self._url = str(options.get("url") or getattr(settings, "MAILROOM_URL", "")).rstrip("/")
        self._key = str(options.get("key") or getattr(settings, "MAILROOM_KEY", ""))
        self._timeout = float(options.get("timeout") or 10)
        if not self._url.startswith(("http://", "https://")) or not self._key:
            raise ValueError("set MAILROOM_URL and MAILROOM_KEY")

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """How many were taken; an error for the first that was not, unless told to be silent."""
        taken = 0
        for each in email_messages:
            try:
                taken += self._send(each)
            except NotTaken:
                if not self.fail_silently:
                    raise
        return taken

    def _send(self, message: EmailMessage) -> bool:
        recipients = [str(each) for each in message.recipients()]
        if not recipients:
            return False
        content = message.message().as_bytes()
        parsed = BytesParser(policy=default).parsebytes(content)
        assert isinstance(parsed, Parsed)
        given = str(message.extra_headers.get("Idempotency-Key", ""))
        own = given or f"django-{secrets.token_hex(12)}"
        made = [
            {"key": f"{own}-{place}" if place else own, **msgspec.to_builtins(new)}
            for place, (_, new) in enumerate(messages(parsed, _bare(recipients), content))
        ]
        self._post({"messages": made})
        return True

    def _post(self, body: dict[str, Any]) -> None:
        """Asked again after a lost answer, under the same keys: it is taken once."""
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        for left in range(TRIES - 1, -1, -1):
            request = urllib.request.Request(  # noqa: S310 - a URL of the operator's, http or https
                f"{self._url}/messages/batch", json.dumps(body).encode(), headers
            )
            try:
                with urllib.request.urlopen(request, timeout=self._timeout):  # noqa: S310
                    return
            except urllib.error.HTTPError as error:
                if error.code < http.client.INTERNAL_SERVER_ERROR or not left:
                    raise NotTaken(f"{error.code}: {error.read()[:500].decode()}") from None
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    raise NotTaken(f"the mailroom does not answer: {error}") from error


def _bare(recipients: Sequence[str]) -> list[str]:
    """Addresses without the names in front of them."""
    from email.utils import parseaddr

    return [parseaddr(each)[1] or each for each in recipients]
