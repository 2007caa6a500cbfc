"""The web face of a part, as it is declared: routes for programs, pages and actions for people.

Declaring checks everything that can be known before a request: the path, the parameters of the function,
who may ask. Nothing here loads a web framework; `web/parts` serves what stands here.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import msgspec

from duework.errors import UsageError
from duework.kernel.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from starlette.requests import Request

    from duework.outside.oauth import OAuth
    from duework.part import Part

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
MAX_BODY = 1024 * 1024
_PATH = re.compile(r"(/([A-Za-z0-9._~:@!$&'()*+,;=-]|\{[a-z_][a-z0-9_]*(:path)?\})*)+")
_PARAMETER = re.compile(r"\{([a-z_][a-z0-9_]*)(?::path)?\}")
_TOPIC_PARAMETER = re.compile(r"\{([^{}]*)\}")
_REGION = re.compile(r"[a-z][a-z0-9-]*")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whom a system serves: signed in to one part, and no operator."""

    id: int
    part: str
    email: str


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status of its own: a Struct, dict or list becomes JSON, a text stays one."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that a form has sent, as a parameter of an action; it is gone when the action has ended."""

    # Its last piece alone: a sender names no folder of ours.
    name: str
    size: int
    opened: Callable[[], BinaryIO] = field(repr=False)

    def open(self) -> BinaryIO:
        """The content from its beginning, as often as it is asked for."""
        return self.opened()


class Template:
    """A page to be rendered: a file of the part's `pages/` and the values that it shows."""

    def __init__(self, name: str, /, **values: Any) -> None:
        self.name = name
        self.values = values

    def __repr__(self) -> str:
        return f"Template({self.name!r})"


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """Whoever sends the value of a setting in a header may ask; with no value nobody may."""

    setting: str
    header: str = "X-Secret"


@dataclass(frozen=True, slots=True)
class Problem:
    """What a route has to say when it refuses: `problem=` of a route may word it otherwise."""

    status: int
    title: str
    detail: str
    code: str
    # Of a body that does not fit: `{"path": "items[0].name", "message": …}`.
    errors: tuple[dict[str, str], ...] = ()
    # What was raised, if it was an error that nobody foresaw.
    error: BaseException | None = None


if TYPE_CHECKING:
    Auth = str | SharedSecret | Callable[[Request], Person | Awaitable[Person | None] | None]
else:
    Auth = Any


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A function and where each of its parameters comes from."""

    function: Callable[..., Any]
    path: str
    # Path parameters by name, with their types.
    parameters: Mapping[str, Any]
    # The parameter that is made from the body, the form or the query, and its Struct.
    body: tuple[str, type[msgspec.Struct]] | None = None
    raw: str | None = None
    request: str | None = None
    person: str | None = None
    transaction: str | None = None
    # The field with files, and whether it is one, perhaps one, or several.
    files: tuple[str, Any] | None = None

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", "handler"))

    @property
    def is_async(self) -> bool:
        """Whether it runs in the event loop."""
        return inspect.iscoroutinefunction(self.function)


@dataclass(frozen=True, slots=True)
class PartRoute:
    """An address for programs."""

    endpoint: Endpoint
    methods: tuple[str, ...]
    auth: Auth
    max_body: int
    problem: Callable[[Problem], Reply | None] | None


@dataclass(frozen=True, slots=True)
class PartPage:
    """A page for people, below the part's name."""

    endpoint: Endpoint
    auth: str
    title: str
    icon: str
    nav: bool
    # Names of what the page shows, `user:{id}`: when one is touched the page is rendered again.
    live: tuple[str, ...]
    # Elements of the page that are sent when their text has changed.
    regions: tuple[str, ...]

    def topics(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Its topics for one address: `user:7`."""
        return tuple(fill(topic, parameters) for topic in self.live)


@dataclass(frozen=True, slots=True)
class PartAction:
    """What a form of a page does, below the part's name."""

    endpoint: Endpoint
    auth: str
    confirm: str | None
    # Bytes of a form with its files; None where it has none.
    max_body: int | None


@dataclass(frozen=True, slots=True)
class PartOAuth:
    """Where people of a part have accounts, and the function that says whose a grant is."""

    provider: Callable[[], OAuth]
    whose: Endpoint


def fill(text: str, parameters: Mapping[str, Any]) -> str:
    """`user:{id}` with its values; a value is never read as another place to fill."""
    return _TOPIC_PARAMETER.sub(lambda found: str(parameters[found[1]]), text)


class Face:
    """What a Part has for the web."""

    def __init__(self, name: str, settings: type[msgspec.Struct] | None) -> None:
        self.name = name
        self.settings = settings
        self.routes: list[PartRoute] = []
        self.pages: list[PartPage] = []
        self.actions: list[PartAction] = []
        # How a link to sign in reaches its person.
        self.link_sender: Endpoint | None = None
        # How people come in with an account elsewhere.
        self.oauth_sign_in: PartOAuth | None = None


def declare_route(
    part: Part,
    path: str,
    *,
    methods: Sequence[str] = ("GET",),
    auth: Auth = "token",
    max_body: int = MAX_BODY,
    problem: Callable[[Problem], Reply | None] | None = None,
) -> Callable[[F], F]:
    """An address for programs, exactly as it is written: `@part.route("/api/orders/{id}")`."""
    face, chosen = part.contents.face, _methods(methods)
    _check_auth(face, auth)

    def declare(function: F) -> F:
        made = PartRoute(inspected(function, path), chosen, auth, max_body, problem)
        _check_person(made.endpoint, auth)
        if made.endpoint.files:
            raise UsageError(f"{made.endpoint.name} takes an Upload: forms send them, to an action")
        for other in face.routes:
            if other.endpoint.path == path and set(other.methods) & set(chosen):
                raise UsageError(f"part {face.name} has a route {chosen[0]} {path} already")
        face.routes.append(made)
        return function

    return declare


def declare_page(
    part: Part,
    path: str,
    *,
    live: Sequence[str] = (),
    title: str | None = None,
    nav: bool = True,
    auth: str = "token",
    icon: str = "",
    regions: Sequence[str] = ("page",),
) -> Callable[[F], F]:
    """A page below the part's name; the function returns `Template("user.html", …)`."""
    face = _named(part, "pages and actions")
    _check_auth(face, auth, people=True)
    if isinstance(live, str) or isinstance(regions, str):
        raise UsageError('live= and regions= are lists of texts, such as live=("user:{id}",)')
    if bad := [each for each in regions if not _REGION.fullmatch(each)]:
        raise UsageError(f"a region is the id of an element, in small letters: not {bad[0]!r}")

    def declare(function: F) -> F:
        endpoint = inspected(function, path)
        _check_person(endpoint, auth)
        if endpoint.request or endpoint.raw or endpoint.transaction or endpoint.files:
            message = (
                f"page {endpoint.name} is rendered again without a request: it takes its path's"
                " parameters and one Struct for the query"
            )
            raise UsageError(message)
        for topic in live:
            if unknown := set(_TOPIC_PARAMETER.findall(topic)) - set(endpoint.parameters):
                raise UsageError(f"topic {topic!r}: {path} has no {{{unknown.pop()}}}")
        if any(other.endpoint.path == path for other in face.pages):
            raise UsageError(f"part {face.name} has a page {path} already")
        shown = title or (face.name if path == "/" else endpoint.name).replace("_", " ")
        facts = (shown[:1].upper() + shown[1:], icon, nav, tuple(live), tuple(regions))
        face.pages.append(PartPage(endpoint, auth, *facts))
        return function

    return declare


def declare_action(
    part: Part,
    path: str,
    *,
    confirm: str | None = None,
    auth: str = "token",
    max_body: int | None = None,
) -> Callable[[F], F]:
    """What a form does, below the part's name: `@part.action("/users/{id}/pause")`.

    A text that it returns is shown on the page that the form came from. With an `Upload` the form has at
    most `max_body` bytes, 1 MB unless said otherwise.
    """
    face = _named(part, "pages and actions")
    _check_auth(face, auth, people=True)

    def declare(function: F) -> F:
        endpoint = inspected(function, path)
        _check_person(endpoint, auth)
        if endpoint.raw or endpoint.request:
            raise UsageError(f"action {endpoint.name} takes a Struct for the fields of its form")
        if any(other.endpoint.path == path for other in face.actions):
            raise UsageError(f"part {face.name} has an action {path} already")
        for name in _TOPIC_PARAMETER.findall(confirm or ""):
            if name not in endpoint.parameters:
                raise UsageError(f"confirm of {path}: there is no {{{name}}}")
        if endpoint.files is None and max_body is not None:
            raise UsageError(f"max_body of {path}: the action takes no Upload")
        if endpoint.files is not None and confirm:
            raise UsageError(f"{path} takes an Upload, which is sent once: it cannot ask first")
        most = None if endpoint.files is None else max_body or MAX_BODY
        face.actions.append(PartAction(endpoint, auth, confirm, most))
        return function

    return declare


def declare_sign_in(part: Part, function: F) -> F:
    """How people get their link: a function of `email` and `url` that enqueues a mail.

    With a `Transaction` as third parameter the mail and the link are one commit. It may also decide
    that an address gets none; whoever asks is told the same.
    """
    face = _named(part, "people")
    endpoint = inspected(function, "/{email}/{url}")
    if set(inspect.signature(function).parameters) - {"email", "url", endpoint.transaction}:
        raise UsageError(f"{endpoint.name} takes email, url and perhaps a Transaction")
    if endpoint.transaction and endpoint.is_async:
        raise UsageError(f"{endpoint.name} takes a Transaction: write it as a plain def")
    if face.link_sender is not None:
        raise UsageError(f"part {face.name} has a way to send links already")
    face.link_sender = endpoint
    return function


def declare_oauth(part: Part, provider: Callable[[], OAuth]) -> Callable[[F], F]:
    """Let people sign in with an account elsewhere: `@part.oauth(github)`.

    `provider()` is asked at each sign-in and gives an `OAuth`. The function gets the `grant` and returns the
    person's e-mail address, which the provider has verified, or None for those who may not come in.
    """
    face = _named(part, "people")

    def declare(function: F) -> F:
        if list(inspect.signature(function).parameters) != ["grant"]:
            raise UsageError(f"{function.__name__} takes one parameter, the grant")
        if face.oauth_sign_in is not None:
            raise UsageError(f"part {face.name} has a provider of accounts already")
        face.oauth_sign_in = PartOAuth(provider, Endpoint(function, "/", {"grant": None}))
        return function

    return declare


def _named(part: Part, what: str) -> Face:
    """Its face; an App has no name of its own under which they could stand."""
    if not part.name:
        raise UsageError(
            f"{what} belong to a part with a name: part = Part('shop'), then app.include(part)"
        )
    return part.contents.face


def _check_auth(face: Face, auth: Auth, *, people: bool = False) -> None:
    if isinstance(auth, SharedSecret) and not people:
        fields = face.settings.__struct_fields__ if face.settings is not None else ()
        if auth.setting not in fields:
            raise UsageError(
                f"the shared secret {auth.setting!r} is no setting of part {face.name}:"
                " give it as a field of Part(…, settings=Settings)"
            )
    elif not (auth in ("token", "public", "person") or (callable(auth) and not people)):
        kinds = "'token', 'public' or 'person'"
        more = "" if people else ", a SharedSecret, or a function of the request"
        raise UsageError(f"auth is {kinds}{more}: not {auth!r}")


def _methods(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not given or not set(given) <= set(METHODS):
        raise UsageError(f"methods are some of {', '.join(METHODS)}: not {given!r}")
    return tuple(dict.fromkeys(given))


def _check_person(endpoint: Endpoint, auth: Auth) -> None:
    if endpoint.person and auth in ("token", "public"):
        raise UsageError(f"{endpoint.name} takes a Person: say auth='person'")
    if endpoint.person and isinstance(auth, SharedSecret):
        raise UsageError(f"{endpoint.name} takes a Person, and a shared secret names nobody")


def inspected(function: Callable[..., Any], path: str) -> Endpoint:
    """The function with its parameters told apart, or a `UsageError` that names the one that is wrong."""
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise UsageError(f"a path is like '/users/{{id}}': not {path!r}")
    names = _PARAMETER.findall(path)
    if len(names) != len(set(names)):
        raise UsageError(f"{path} names a parameter twice")
    hints = _hints(function)
    found: dict[str, Any] = {"parameters": {}}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise UsageError(f"{path}: a handler has named parameters only, no *{name}")
        kind = hints.get(name, str if name in names else None)
        if name in names:
            found["parameters"][name] = kind
        else:
            _place(found, path, name, kind)
    if missing := [name for name in names if name not in found["parameters"]]:
        raise UsageError(f"{path}: the handler has no parameter {missing[0]!r}")
    return Endpoint(function, path, **found)


def _place(found: dict[str, Any], path: str, name: str, kind: Any) -> None:
    """Where a parameter comes from that is not in the path."""
    place = _source(kind)
    if place is None:
        message = (
            f"{path}: where does {name!r} come from? It is not in the path, and neither a"
            " msgspec.Struct, bytes, Request, Person, Transaction nor Upload"
        )
        raise UsageError(message)
    if place in found:
        raise UsageError(f"{path}: {name!r} is one too many, a handler has one {place}")
    found[place] = (name, kind) if place in {"body", "files"} else name


_PLACES: dict[str, tuple[Any, ...]] = {
    "files": (Upload, Upload | None, list[Upload]),
    "raw": (bytes,),
    "person": (Person,),
    "transaction": (Transaction,),
}


def _source(kind: Any) -> str | None:
    for place, kinds in _PLACES.items():
        if kind in kinds:
            return place
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        return None
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return "body"
    # By its name: the framework is not loaded to declare something.
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__name__", "")
    return "request" if (module, name) == ("starlette.requests", "Request") else None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError) as error:
        name = getattr(function, "__qualname__", function)
        message = f"the annotations of {name} cannot be read, are they at the module's top? {error}"
        raise UsageError(message) from error
