"""Sign-in of people with an account elsewhere: out to the provider, and back with a code.

What the browser must come back with is in a cookie of its own, so an attempt that somebody else began, in
another browser, opens nothing here. The cookie goes with the first answer, whatever that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote, unquote

from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from duework.errors import HttpError, UsageError
from duework.face import PartOAuth
from duework.kernel.outcomes import Throttled
from duework.outside.oauth import OAuth, OAuthGrant, error_word
from duework.part import Part
from duework.people import clean_email
from duework.web.parts.calls import call
from duework.web.parts.problems import LOG
from duework.web.parts.sign_in import home, open_session, sign_in_page
from duework.web.tokens import same
from duework.web.visits import OPEN, DoorRoute, Visit, is_ours, origin, person_cookie

# How long somebody may take at the provider, in seconds.
LIFE = 600
STALE = "This sign-in was not begun in this browser, or took too long. Begin again."


class NotLetIn(Exception):
    """Why nobody is signed in, in words for them."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def oauth_routes(
    part: Part, declared: PartOAuth, door: Callable[..., DoorRoute]
) -> Iterable[DoorRoute]:
    """Where it begins, and where the provider sends the browser back to."""
    root = f"/{part.name}/oauth"

    def begin(visit: Visit) -> Response:
        request = declared.provider().begin(_back_here(visit, part))
        answer = RedirectResponse(request.url, 303)
        back = visit.back(home(part)).removeprefix(visit.base)
        kept = f"{request.state} {request.verifier} {back}"
        answer.set_cookie(
            *(_cookie(visit), quote(kept, safe="")),
            max_age=LIFE,
            httponly=True,
            secure=visit.secure,
            samesite="lax",
        )
        return answer

    async def finish(visit: Visit) -> Response:
        try:
            answer = await _finish(visit, part, declared)
        except NotLetIn as error:
            answer = sign_in_page(visit, part, error.status, words=str(error))
        answer.delete_cookie(_cookie(visit), httponly=True, secure=visit.secure, samesite="lax")
        return answer

    yield door(root, begin, OPEN, ("GET",), part)
    yield door(f"{root}/back", finish, OPEN, ("GET",), part)


async def _finish(visit: Visit, part: Part, declared: PartOAuth) -> Response:
    kept = unquote(visit.request.cookies.get(_cookie(visit), "")).split(" ")
    if len(kept) != 3 or not same(visit.asked("state"), kept[0]):  # noqa: PLR2004 - as it was kept
        raise NotLetIn(400, STALE)
    provider = declared.provider()
    if visit.asked("error") or not visit.asked("code"):
        word = error_word({"error": visit.asked("error")})
        raise NotLetIn(401, f"{provider.name} did not let you in: {word}.")
    grant = await _grant(visit, part, provider, kept[1])
    email = await call(part.app, declared.whose, {"grant": grant})
    if email is None:
        raise NotLetIn(403, f"This account of {provider.name} may not sign in here.")
    code = await run_in_threadpool(part.people.entry, clean_email(email))
    session = await run_in_threadpool(part.people.enter, code)
    to = kept[2] if is_ours(kept[2]) else home(part)
    return open_session(visit, session or "", visit.base + to)


async def _grant(visit: Visit, part: Part, provider: OAuth, verifier: str) -> OAuthGrant:
    try:
        return await provider.exchange(visit.asked("code"), _back_here(visit, part), verifier)
    except UsageError as error:
        raise NotLetIn(401, f"{error}. Begin again.") from error
    except (HttpError, Throttled) as error:
        LOG.warning("the sign-in of %s by %s failed: %s", part.name, provider.name, error)
        raise NotLetIn(502, f"{provider.name} does not answer. Try again later.") from error


def _back_here(visit: Visit, part: Part) -> str:
    return f"{origin(visit)}{visit.base}/{part.name}/oauth/back"


def _cookie(visit: Visit) -> str:
    return f"{person_cookie(visit)}-oauth"
