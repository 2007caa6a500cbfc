"""Links in mails: signed, so that whoever holds one may say "done" of that fire, and of nothing else."""

from __future__ import annotations

import hmac

from duework import NotFound
from systems.reminders.part import settings

LENGTH = 40


def done_link(job: int) -> str | None:
    """Where the receiver of a mail says that it is done; None if nothing signs links here."""
    chosen = settings()
    if chosen.signer is None:
        return None
    return f"{chosen.base_url.rstrip('/')}/reminders/done/{job}.{_mac(chosen.signer, job)}"


def job_of(token: str) -> int:
    """The fire that a link is about; `NotFound` unless we have signed it."""
    text, _, mac = token.partition(".")
    signer = settings().signer
    known = signer is not None and text.isascii() and text.isdigit() and len(text) <= 19  # noqa: PLR2004
    if not known or not hmac.compare_digest(_mac(signer or "", int(text)).encode(), mac.encode()):
        raise NotFound("this link is not one of ours, or the key that signs links was changed")
    return int(text)


def _mac(signer: str, job: int) -> str:
    return hmac.digest(signer.encode(), f"reminders:done:{job}".encode(), "sha256").hex()[:LENGTH]
