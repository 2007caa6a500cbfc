"""Sign-in with an account elsewhere: OAuth 2 with a code, a state and PKCE, as RFC 9700 asks for.

A provider is told where to send the browser back to, and a *challenge*: the hash of a verifier that only the
one who began can show. What comes back is a code, which is exchanged once for a grant.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from duework.errors import HttpError, UsageError
from duework.outside.http import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duework.config import Secret

_OK, _ILL = 200, 500
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class OAuthGrant:
    """What a provider gave for a code; the tokens in it are not shown."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    # All that it answered: an account, an id_token, when the tokens end.
    answer: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class OAuthRequest:
    """One attempt to sign in: where the browser goes, and what it must come back with."""

    url: str = field(repr=False)
    state: str = field(repr=False)
    verifier: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """A provider of accounts, and what it knows this application by."""

    # What people call it: GitHub.
    name: str
    # Its page for the browser, and where codes are exchanged.
    authorize_url: str
    token_url: str
    client_id: str
    client_secret: Secret
    scope: str = ""

    def begin(self, redirect_uri: str) -> OAuthRequest:
        """A new attempt; the state and the verifier stay with the browser that begins."""
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.scope,
            "state": state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in self.authorize_url else "?"
        return OAuthRequest(f"{self.authorize_url}{mark}{urlencode(query)}", state, verifier)

    async def exchange(self, code: str, redirect_uri: str, verifier: str) -> OAuthGrant:
        """The grant for a code; `UsageError` if the provider refuses it, `HttpError` if it is not there."""
        parts = urlsplit(self.token_url)
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self.client_id,
            "client_secret": self.client_secret.reveal(),
            "code_verifier": verifier,
        }
        async with Client(f"{parts.scheme}://{parts.netloc}") as client:
            reply = await client.post(
                self.token_url, data=fields, headers={"accept": "application/json"}
            )
        answer = _object(reply)
        # Some refuse with the status 200.
        if reply.status != _OK or "error" in answer:
            raise UsageError(f"{self.name} did not take the code: {error_word(answer)}")
        if not isinstance(token := answer.get("access_token"), str) or not token:
            raise HttpError(f"{self.name} answered without a token")
        return OAuthGrant(token, str(answer.get("refresh_token") or ""), answer)


def _object(reply: Any) -> dict[str, Any]:
    """The body, if it is what a provider sends; a server that is ill sends something else."""
    if reply.status >= _ILL:
        reply.check()
    try:
        found = reply.json()
    except HttpError:
        found = None
    if isinstance(found, dict):
        return found
    reply.check()
    raise HttpError("the provider's answer is no JSON object")


def error_word(answer: Mapping[str, Any]) -> str:
    """Its error in one word of the standard's; nothing of what else it says."""
    word = answer.get("error")
    plain = isinstance(word, str) and word.isascii() and word.replace("_", "").isalnum()
    return str(word)[:_LONGEST] if plain else "an error"
