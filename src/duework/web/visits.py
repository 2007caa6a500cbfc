"""One request of somebody: who it is, what they may do, what they sent. Every route goes through `door`.

A route names the scope that it needs, or `OPEN`; there is no other way to make one. A program sends its token
as `Authorization: Bearer …` and no cookie counts then. A browser has a session in a cookie, and whatever it
posts must come from our own page twice over: by what the browser says of where it comes from, and by a
field that only a page of this session has.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from duework.errors import Conflict, DatabaseError, NotFound, UsageError
from duework.face import Person
from duework.web.filters import zone_of
from duework.web.forms import PostedForm, read_form
from duework.web.limits.rates import ADMITTED, RateLimits
from duework.web.shield import LOOPBACK, name_of
from duework.web.tokens import Tokens, Who, hashed, same

if TYPE_CHECKING:
    from duework.app import App
    from duework.face import Auth, PartPage, PartRoute
    from duework.part import Part
    from duework.web.regions import Regions

OPEN = ""
# How often a page is looked at again that shows how long something runs or has waited, in seconds.
SOON = 5.0
# The same for one that shows that something waits.
LATER = 300.0
# What a page for the people of a part needs: a session of that part, and no token.
PERSON = "person"
SAFE = frozenset({"GET", "HEAD"})
THEMES = ("light", "dark")
# What no person reads: whatever goes wrong there, the answer is no page.
MACHINE = frozenset({"/health", "/metrics"})
_BACK = re.compile(r"/[^\\\x00-\x20\x7f/][^\\\x00-\x20\x7f]*|/")

Handler = Callable[["Visit"], Response | Awaitable[Response]]


# What may be offered to take an action back, and what its button says.
UNDOES = {
    "/jobs/retry": "Open again, due now",
    "/queues/pause": "Undo",
    "/queues/resume": "Undo",
    "/schedules/pause": "Undo",
    "/schedules/resume": "Undo",
}


@dataclass(frozen=True, slots=True)
class Undo:
    """The action that takes another one back, and the fields of its form."""

    action: str
    fields: Sequence[tuple[str, Any]]

    @property
    def words(self) -> str:
        return UNDOES[self.action]


@dataclass
class Visit:
    """What a page gets to know about a request."""

    app: App
    request: Request
    who: Who | None
    # Why there is nobody: no token, unknown, expired or revoked.
    refused: str = ""
    # Somebody whom a part serves, on the part's own pages for people.
    person: Person | None = None
    # The part whose page it is, and the person's session there.
    part: Part | None = None
    person_session: str = ""
    # The jobs that an open list shows, which are to be shown again; None if the page is being opened.
    rows: tuple[int, ...] | None = None
    # In how many seconds the page looks different though nothing has changed; set by the page.
    again: float | None = None
    posted: PostedForm = field(default_factory=PostedForm)
    render: Callable[..., Response] = field(default=lambda **_: Response())

    @property
    def form(self) -> list[tuple[str, str]]:
        """The fields of the form, in order."""
        return self.posted.fields

    @property
    def base(self) -> str:
        """What our own addresses start with."""
        return str(self.request.scope.get("root_path", "")).rstrip("/")

    @property
    def here(self) -> str:
        """This page, with its filters, below `base`."""
        path = self.request.url.path.removeprefix(self.base) or "/"
        query = self.request.url.query
        return f"{path}?{query}" if query else path

    @property
    def theme(self) -> str:
        chosen = self.request.cookies.get("theme", "")
        return chosen if chosen in THEMES else ""

    @property
    def zone(self) -> tzinfo:
        cookies = self.request.cookies
        name = "UTC" if cookies.get("zone") == "utc" else unquote(cookies.get("tz", ""))
        return zone_of(name)

    @property
    def utc(self) -> bool:
        return self.request.cookies.get("zone") == "utc"

    @property
    def keys_off(self) -> bool:
        return self.request.cookies.get("keys") == "off"

    @property
    def wants_json(self) -> bool:
        return "application/json" in self.request.headers.get("accept", "")

    @property
    def by_program(self) -> bool:
        """Whether a program is answered: it has a token, asks for JSON, or for what only programs read."""
        asks = self.here.partition("?")[0] in MACHINE
        return asks or self.wants_json or "authorization" in self.request.headers

    def live(self, rows: Iterable[int] = ()) -> str:
        """Where the changes of this page come from; `rows` are the jobs that it lists."""
        return live_address(self.base, self.here, rows)

    def asked(self, name: str) -> str:
        """A value of the address; empty if there is none."""
        return self.request.query_params.get(name, "")

    def sent(self, name: str) -> str:
        """A field of the form; empty if there is none."""
        return next((value for key, value in self.form if key == name), "")

    def all_sent(self, name: str) -> list[str]:
        return [value for key, value in self.form if key == name]

    def back(self, default: str = "/") -> str:
        """Where an action returns to: an address of ours, whatever the form says."""
        wanted = self.sent("back") or self.asked("back")
        return self.base + (wanted if is_ours(wanted) else default)

    def redirect(
        self, to: str, words: str = "", kind: str = "ok", undo: Undo | None = None
    ) -> Response:
        answer = RedirectResponse(to, 303)
        kept = {"said": f"{kind} {words[:500]}"} if words else {}
        if undo is not None:
            kept["undo"] = urlencode([("act", undo.action), *undo.fields])
        for name, value in kept.items():
            answer.set_cookie(name, quote(value), max_age=30, httponly=True, samesite="lax")
        return answer

    @property
    def undo(self) -> Undo | None:
        """What takes the last action back, offered beside what it had to say."""
        given = parse_qsl(unquote(self.request.cookies.get("undo", "")))
        if not given or given[0][0] != "act" or given[0][1] not in UNDOES or not self.said:
            return None
        return Undo(given[0][1], given[1:])

    @property
    def said(self) -> tuple[str, str] | None:
        """What the last action had to say, told once."""
        kind, _, words = unquote(self.request.cookies.get("said", "")).partition(" ")
        return (kind, words) if kind in {"ok", "bad"} and words else None

    @property
    def form_key(self) -> str:
        """What a form of this session carries; empty without one."""
        if self.person is not None:
            return hashed(f"form {self.person_session}")
        return self.who.form_key if self.who is not None else ""

    @property
    def sign_in(self) -> str:
        """Where whoever is not known signs in, below `base`; for a person the part's first page."""
        if self.part is not None and self.person is not None:
            return f"/{self.part.name}/"
        return f"/{self.part.name}/sign-in" if self.part is not None else "/login"

    @property
    def secure(self) -> bool:
        return name_of(self.request.headers.get("host", "")) not in LOOPBACK


def origin(visit: Visit) -> str:
    """Scheme and host of our own addresses; the host is one that this server answers to."""
    return f"{'https' if visit.secure else 'http'}://{visit.request.headers['host']}"


def live_address(base: str, here: str, rows: Iterable[int] = ()) -> str:
    """Where the changes of the page `here` come from."""
    path, _, query = here.partition("?")
    listed = ".".join(map(str, rows))
    pieces = [urlencode({"page": path}), query, urlencode({"rows": listed}) if listed else ""]
    return f"{base}/live?{'&'.join(each for each in pieces if each)}"


def is_ours(path: str) -> bool:
    """Whether it is a path below our own name, and nothing that a browser takes for another site."""
    return _BACK.fullmatch(path) is not None


def cookie_name(visit: Visit) -> str:
    """By its prefix a browser takes it from this very host alone, and only by https."""
    return "__Host-duework" if visit.secure else "duework"


def person_cookie(visit: Visit) -> str:
    assert visit.part is not None
    name = visit.part.name.replace(":", ".")
    return f"{cookie_name(visit)}-{name}"


class DoorRoute(Route):
    """A route that says what it needs, for what goes through all of them, and how its page is made again."""

    # A scope, or how else somebody may ask; None of one that only refuses.
    needs: Auth | None = None
    # Whether it answers programs; and what a part has declared, of a part's own.
    for_programs = False
    part_route: PartRoute | None = None
    # What makes the page: a handler of ours, or a part and its page.
    page: Handler | tuple[Part, PartPage] | None = None
    # How a page of ours changes by itself.
    regions: Regions | None = None


def door(
    app: App, render: Callable[..., Response], limits: RateLimits | None = None
) -> Callable[..., DoorRoute]:
    """What makes routes: `route("/jobs", jobs, "read")`."""

    def route(
        path: str,
        handler: Handler,
        scope: str,
        methods: tuple[str, ...] = ("GET",),
        part: Part | None = None,
        regions: Regions | None = None,
        uploads: int | None = None,
    ) -> DoorRoute:
        async def enter(request: Request) -> Response:
            visit = Visit(app, request, None, part=part, render=render)
            try:
                return await _enter(visit, handler, scope, limits, uploads)
            except HTTPException as error:
                return problem(visit, error.status_code, error.detail, error.headers)
            except NotFound as error:
                return problem(visit, 404, str(error))
            except (UsageError, Conflict) as error:
                return problem(visit, 400 if isinstance(error, UsageError) else 409, str(error))
            except DatabaseError as error:
                return problem(visit, 503, f"The database does not answer: {error}")
            finally:
                visit.posted.close()

        made = DoorRoute(path, enter, methods=list(methods), name=f"{methods[0]} {path}")
        made.needs, made.page, made.regions = scope, handler, regions
        return made

    return route


async def _enter(
    visit: Visit, handler: Handler, scope: str, limits: RateLimits | None, uploads: int | None
) -> Response:
    request = visit.request
    await run_in_threadpool(recognise_person if scope == PERSON else recognise, visit)
    if request.method not in SAFE:
        check_site(visit)
    if scope != OPEN and visit.who is None and visit.person is None:
        if request.method == "GET" and not visit.by_program:
            return RedirectResponse(f"{visit.base}{visit.sign_in}?back={quote(visit.here)}", 303)
        words = {"": "Sign in first, or send a token."}.get(
            visit.refused, f"That token is {visit.refused}."
        )
        raise HTTPException(401, words)
    if scope not in {OPEN, PERSON} and visit.who is not None and not visit.who.may(scope):
        words = f"This needs the scope {scope}; {visit.who.name} has {visit.who.scope}."
        raise HTTPException(403, words)
    if scope != OPEN:
        request.scope[ADMITTED] = True
    if request.method not in SAFE:
        if limits is not None:
            _count_action(visit, limits)
        # Only now: nothing is kept of what somebody sends who may not.
        visit.posted = await read_form(request, uploads)
        _check_form(visit, has_session=scope != OPEN)
    if inspect.iscoroutinefunction(handler):
        answer: Response = await handler(visit)
    else:
        answer = await run_in_threadpool(cast("Callable[[Visit], Response]", handler), visit)
    if visit.said and answer.status_code == 200:  # noqa: PLR2004 - told on a page, not by a redirect
        _forget_said(answer)
    return answer


def _forget_said(answer: Response) -> None:
    for name in ("said", "undo"):
        answer.delete_cookie(name, httponly=True, samesite="lax")


def _count_action(visit: Visit, limits: RateLimits) -> None:
    """Forms of a session; what a program asks is counted with its token."""
    if visit.person is not None:
        limits.act(f"person {visit.person.id}")
    elif visit.who is not None and visit.who.session:
        limits.act(f"token {visit.who.name}")


def recognise(visit: Visit) -> None:
    """Who it is, by the header of a program or else by the cookie of a browser."""
    header = visit.request.headers.get("authorization")
    if header is not None:
        word, _, secret = header.partition(" ")
        found = (
            Tokens(visit.app).who(secret.strip(), "token")
            if word.lower() == "bearer"
            else "unknown"
        )
    elif session := visit.request.cookies.get(cookie_name(visit)):
        found = Tokens(visit.app).who(session, "session")
    else:
        found = ""
    if isinstance(found, Who):
        visit.who = found
    else:
        visit.refused = found


def recognise_person(visit: Visit) -> None:
    """Who of the part's own people it is; an operator is nobody here."""
    assert visit.part is not None
    session = visit.request.cookies.get(person_cookie(visit))
    if session and "authorization" not in visit.request.headers:
        visit.person = visit.part.people.who(session)
        visit.person_session = session


def check_site(visit: Visit) -> None:
    """Refuse what another site lets a browser send; a program with a token is no browser."""
    headers = visit.request.headers
    if "authorization" in headers:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        ours = site == "same-origin"
    else:
        ours = origin is not None and same_host(origin, headers.get("host", ""))
    if not ours:
        raise HTTPException(403, "This was sent from a page of another site.")


def _check_form(visit: Visit, *, has_session: bool) -> None:
    """Refuse a form that no page of this session has made."""
    key = visit.form_key
    if not has_session or not key or "authorization" in visit.request.headers:
        return
    if not same(visit.sent("form"), key):
        raise HTTPException(403, "This form is of another session: reload the page and try again.")


def same_host(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower()


def problem(
    visit: Visit, status: int, words: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error for whoever asked: a page for people, JSON for programs."""
    answer = _problem(visit, status, words)
    answer.headers.update(headers or {})
    return answer


def _problem(visit: Visit, status: int, words: str) -> Response:
    if visit.by_program:
        code = HTTPStatus(status).phrase.lower().replace(" ", "_")
        return JSONResponse({"error": {"code": code, "message": words}}, status)
    shown = words[:1].upper() + words[1:]
    return visit.render(visit, "error.html", status=status, words=shown)


def form_ids(visit: Visit, most: int = 100) -> list[int]:
    """The jobs that a form names."""
    given = visit.all_sent("id") or visit.request.query_params.getlist("id")
    if not given:
        raise HTTPException(400, "No job was chosen: tick some first.")
    if len(given) > most:
        raise HTTPException(400, f"At most {most} jobs at a time.")
    if any(not re.fullmatch(r"[0-9]{1,19}", each) or int(each) >= 2**63 for each in given):
        raise HTTPException(400, "That is not the id of a job.")
    return list(dict.fromkeys(int(each) for each in given))
