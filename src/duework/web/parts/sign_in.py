"""How the people of a part come in: a form for their address, a mailed link, a session, a way out.

Whoever asks is told the same, whether the address is known or not. A link does nothing by itself, so that a
mail program that looks at it does not use it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from duework.errors import UsageError
from duework.kernel.transaction import Transaction
from duework.part import Part
from duework.people import SESSION_MS, clean_email
from duework.web.parts.calls import call
from duework.web.parts.pages import part_title
from duework.web.visits import OPEN, PERSON, DoorRoute, Visit, is_ours, origin, person_cookie


def sign_in_routes(part: Part, door: Callable[..., DoorRoute]) -> Iterable[DoorRoute]:
    """The addresses; without a way to send links there is no form for one."""
    root = f"/{part.name}"

    def ask(visit: Visit) -> Response:
        return sign_in_page(visit, part)

    async def send(visit: Visit) -> Response:
        return await _send(visit, part)

    def look(visit: Visit) -> Response:
        return sign_in_page(visit, part, code=visit.asked("code"))

    def enter(visit: Visit) -> Response:
        return _enter(visit, part)

    def leave(visit: Visit) -> Response:
        part.people.leave(visit.person_session)
        answer = visit.redirect(f"{visit.base}{root}/sign-in")
        answer.delete_cookie(
            person_cookie(visit), httponly=True, secure=visit.secure, samesite="lax"
        )
        return answer

    yield door(f"{root}/sign-in", ask, OPEN, ("GET",), part)
    if part.contents.face.link_sender is not None:
        yield door(f"{root}/sign-in", send, OPEN, ("POST",), part)
    yield door(f"{root}/enter", look, OPEN, ("GET",), part)
    yield door(f"{root}/enter", enter, OPEN, ("POST",), part)
    yield door(f"{root}/sign-out", leave, PERSON, ("POST",), part)


def sign_in_page(visit: Visit, part: Part, status: int = 200, **values: Any) -> Response:
    """The page with all ways in, and what went wrong before."""
    root = f"{visit.base}/{part.name}"
    shown = {"code": "", "words": "", "sent": "", "back": visit.back(home(part)), **values}
    shown["back"] = shown["back"].removeprefix(visit.base)
    face = part.contents.face
    shown["by_mail"] = face.link_sender is not None
    shown["provider"] = face.oauth_sign_in.provider().name if face.oauth_sign_in else ""
    title = part_title(part)
    return visit.render(visit, "sign_in.html", status=status, root=root, heading=title, **shown)


def home(part: Part) -> str:
    """The first page of a part."""
    return f"/{part.name}/"


async def _send(visit: Visit, part: Part) -> Response:
    """Write a link and hand it to the part: both in one commit if the part takes a transaction."""
    try:
        email = clean_email(visit.sent("email"))
    except UsageError as error:
        return sign_in_page(visit, part, 422, words=str(error))
    sender = part.contents.face.link_sender
    assert sender is not None
    if sender.transaction is not None:
        await run_in_threadpool(_send_within, visit, part, email)
    else:
        code = await run_in_threadpool(part.people.link, email)
        if code is not None:
            await call(part.app, sender, {"email": email, "url": _url(visit, part, code)})
    return sign_in_page(visit, part, sent=email)


def _send_within(visit: Visit, part: Part, email: str) -> None:
    sender = part.contents.face.link_sender
    assert sender is not None
    assert sender.transaction is not None
    with part.app.transaction() as tx:
        if (code := part.people.link_within(tx, email)) is not None:
            sender.function(**_sent(sender.transaction, tx, email, _url(visit, part, code)))


def _sent(name: str, tx: Transaction, email: str, url: str) -> dict[str, Any]:
    return {"email": email, "url": url, name: tx}


def _url(visit: Visit, part: Part, code: str) -> str:
    """The link in full; the host is one that this server answers to."""
    back = visit.sent("back")
    more = f"&back={quote(back, safe='')}" if is_ours(back) else ""
    return f"{origin(visit)}{visit.base}/{part.name}/enter?code={code}{more}"


def _enter(visit: Visit, part: Part) -> Response:
    session = part.people.enter(visit.sent("code"))
    if session is None:
        words = "This link was used already, or is too old. Ask for a new one."
        return sign_in_page(visit, part, 401, words=words)
    return open_session(visit, session, visit.back(home(part)))


def open_session(visit: Visit, session: str, to: str) -> Response:
    """Somebody is in: their cookie, and the page that they wanted."""
    answer = visit.redirect(to)
    answer.set_cookie(
        *(person_cookie(visit), session),
        max_age=SESSION_MS // 1000,
        httponly=True,
        secure=visit.secure,
        samesite="lax",
    )
    return answer
