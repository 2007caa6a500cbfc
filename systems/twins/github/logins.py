"""GitHub's sign-in for applications: a page to allow it, a code that is good once, PKCE, and addresses.

The exchange refuses with status 200 and an `error` in the body, and answers JSON to those who ask for it.
"""

from __future__ import annotations

import base64
import hashlib
import html
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from systems.twins.kit.app import Answer, Call, Door

if TYPE_CHECKING:
    from systems.twins.github import GitHub

CODE_LIFE = 600_000


@dataclass(slots=True)
class Code:
    login: str
    scopes: str
    redirect_uri: str
    challenge: str
    until: int


class Logins:
    def __init__(self, github: GitHub) -> None:
        self._github = github
        self.start_over()

    def start_over(self) -> None:
        self.client_id, self.client_secret = "Iv1.twin", "github-secret"
        self.codes: dict[str, Code] = {}
        # Addresses that their owners have not confirmed, and people who say no.
        self.unverified: set[str] = set()
        self.refusing: set[str] = set()

    def doors(self) -> list[Door]:
        return [
            Door("authorize", "GET", "/login/oauth/authorize", self._authorize),
            Door("access_token", "POST", "/login/oauth/access_token", self._exchange),
            Door("emails", "GET", "/user/emails", self._emails),
        ]

    def decide(self, login: str, *, verified: bool = True, allows: bool = True) -> None:
        """Whether a person has confirmed its address, and allows the application in."""
        (self.unverified.discard if verified else self.unverified.add)(login.lower())
        (self.refusing.discard if allows else self.refusing.add)(login.lower())

    def _authorize(self, call: Call) -> Response:
        """A page that lets a person choose who to be; `as` chooses at once."""
        query = call.query
        if query.get("client_id") != self.client_id or not query.get("redirect_uri"):
            return self._github.refusal(404)
        login = query.get("as", "").lower()
        if login not in self._github.people:
            return HTMLResponse(self._people(call))
        back = {"state": query.get("state", "")}
        if login in self.refusing:
            back |= {"error": "access_denied", "error_description": "The user has denied access"}
        else:
            back["code"] = self._code(call, login)
        mark = "&" if "?" in query["redirect_uri"] else "?"
        return RedirectResponse(query["redirect_uri"] + mark + urlencode(back), 302)

    def _code(self, call: Call, login: str) -> str:
        query, code = call.query, self._github.token(length=20)
        challenge = query.get("code_challenge", "")
        if challenge and query.get("code_challenge_method") != "S256":
            raise Answer(self._github.refusal(404))
        facts = (login, query.get("scope", ""), query["redirect_uri"], challenge)
        self.codes[code] = Code(*facts, call.now + CODE_LIFE)
        return code

    def _people(self, call: Call) -> str:
        links = [
            f'<li><a href="?{html.escape(urlencode([*call.query.multi_items(), ("as", each)]))}">'
            f"{html.escape(each)}</a></li>"
            for each in self._github.people
        ]
        return f"<!doctype html><title>GitHub twin</title><h1>Be</h1><ul>{''.join(links)}</ul>"

    def _exchange(self, call: Call) -> Response:
        sent = {name: str(value) for name, value in call.fields().items()}
        if (sent.get("client_id"), sent.get("client_secret")) != (
            self.client_id,
            self.client_secret,
        ):
            return _error(call, "incorrect_client_credentials")
        found = self.codes.pop(sent.get("code", ""), None)
        if found is None or found.until <= call.now:
            return _error(call, "bad_verification_code")
        if sent.get("redirect_uri", found.redirect_uri) != found.redirect_uri:
            return _error(call, "redirect_uri_mismatch")
        if found.challenge and challenge_of(sent.get("code_verifier", "")) != found.challenge:
            return _error(call, "bad_verification_code")
        token = self._github.add_token(self._github.token("gho_"), found.login, found.scopes)
        self._github.ledger.add("login", call.now, login=found.login)
        answer = {"access_token": token, "scope": found.scopes.replace(" ", ",")}
        return _worded(call, {**answer, "token_type": "bearer"})

    def _emails(self, call: Call) -> Response:
        token = self._github.admit(call)
        if "user:email" not in token.scopes:
            return self._github.refusal(404)
        verified = token.login not in self.unverified
        address = f"{token.login}@users.example"
        facts = {"email": address, "verified": verified, "primary": True, "visibility": "private"}
        return JSONResponse([facts])


def challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _error(call: Call, word: str) -> Response:
    docs = "https://docs.github.com/apps/oauth-apps"
    words = {"error": word, "error_description": word.replace("_", " "), "error_uri": docs}
    return _worded(call, words)


def _worded(call: Call, answer: dict[str, str]) -> Response:
    if "application/json" in call.headers.get("accept", ""):
        return JSONResponse(answer)
    return Response(urlencode(answer), media_type="application/x-www-form-urlencoded")
