"""A part with a web face of every kind, for the tests."""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from duework import (
    App,
    Conflict,
    NotFound,
    Part,
    Person,
    Problem,
    Reply,
    Secret,
    SharedSecret,
    Template,
    Transaction,
    Unavailable,
    Upload,
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    server_secret: Secret | None = None


class Item(msgspec.Struct):
    name: str
    count: int = 1


class Order(msgspec.Struct):
    user: int
    items: list[Item] = []
    express: bool = False


class Days(msgspec.Struct):
    days: int = 7
    kind: Literal["all", "failed"] = "all"


class Note(msgspec.Struct):
    note: str = ""
    sure_about: bool = False


CRON = SharedSecret(setting="server_secret", header="X-Cron-Secret")


def in_its_own_words(problem: Problem) -> Reply | None:
    if problem.status == 401:
        return Reply(401, {"error": "Unauthorized"})
    if problem.status == 500:
        return Reply(500, {"error": "Process user failed", "message": str(problem.error)})
    return None


def caller(request: Request) -> Person | None:
    known = {"ada": Person(1, "club", "ada@club.test"), "eve": Person(2, "other", "eve@x.test")}
    return known.get(request.headers.get("x-caller", ""))


def club() -> Part:
    part = Part("club", settings=Settings)
    part.__dict__["paused"] = []
    routes(part)
    more_routes(part)
    pages(part, part.__dict__["paused"])
    actions(part, part.__dict__["paused"])
    part.__dict__["mails"] = []
    people(part, part.__dict__["mails"])
    return part


def people(part: Part, mails: list[tuple[str, str]]) -> None:
    """What its people see: each their own rows, which is for the part to see to."""
    owners = {1: "ada@club.test", 2: "bob@club.test"}

    @part.sign_in
    def send_link(email: str, url: str) -> None:
        mails.append((email, url))

    @part.page("/mine/{id}", auth="person")
    def mine(id: int, person: Person) -> Template:  # noqa: A002
        if owners.get(id) != person.email:
            raise NotFound("there is no such thing of yours")
        return Template("mine.html", id=id)

    @part.action("/mine/{id}/stop", auth="person")
    def stop(id: int, person: Person) -> str:  # noqa: A002
        if owners.get(id) != person.email:
            raise NotFound("there is no such thing of yours")
        return f"{person.email} stopped {id}"

    @part.route("/api/me", methods=["GET", "POST"], auth="person")
    def me(person: Person) -> dict[str, str]:
        return {"email": person.email}


def routes(part: Part) -> None:
    @part.route("/api/orders/{id}")
    def order(id: int) -> Order:  # noqa: A002 - the path's own word
        if id == 404:
            raise NotFound(f"there is no order {id}")
        return Order(id)

    @part.route("/api/orders", methods=["POST"])
    async def place(body: Order) -> Reply:
        return Reply(201, body, {"location": f"/api/orders/{body.user}"})

    @part.route("/api/orders", methods=["GET"])
    def orders(query: Days) -> list[int]:
        return [query.days]

    @part.route(
        "/api/cron/process-user", methods=["POST"], auth=CRON, problem=in_its_own_words, max_body=99
    )
    async def process_user(body: Item) -> dict[str, str]:
        if body.name == "bad":
            raise ValueError("no such luck")
        return {"name": body.name}


def more_routes(part: Part) -> None:
    @part.route("/hooks/{name}", methods=["POST"], auth="public")
    def hook(name: str, raw: bytes) -> Reply:
        return Reply(202, f"{name}: {len(raw)}")

    @part.route("/api/raise/{kind}", auth="public")
    def raises(kind: str) -> None:
        errors = {"conflict": Conflict("taken"), "away": Unavailable("disk"), "none": None}
        if (error := errors.get(kind, KeyError("secret inside"))) is not None:
            raise error

    @part.route("/api/whoami", auth=caller)
    async def whoami(person: Person, request: Request) -> Response:
        return PlainTextResponse(f"{person.email} {request.method}")


def pages(part: Part, paused: list[str]) -> None:
    @part.page("/", title="The club")
    def front() -> Template:
        return Template("club.html", count=3)

    @part.page("/users/{id}", live=("user:{id}", "users"), regions=("history", "query"))
    async def user(id: int, query: Days) -> Template | Reply:  # noqa: A002
        if id == 404:
            raise NotFound("there is no such user")
        if id == 303:
            return Reply(303, headers={"location": "/club/"})
        shown = {"name": "<b>Ada</b>", "state": "done", "history": ["joined", *paused]}
        return Template("user.html", id=id, days=query.days, **shown)

    @part.page("/broken", nav=False)
    def broken() -> Template:
        raise RuntimeError("secret inside")

    @part.page("/rules", auth="public")
    def rules() -> Template:
        return Template("club.html", count=0)


def actions(part: Part, paused: list[str]) -> None:
    @part.action("/users/{id}/pause")
    def pause(id: int, form: Note) -> str:  # noqa: A002
        if id == 409:
            raise Conflict("it is paused already")
        paused.append(form.note or "paused")
        return f"User {id} is paused"

    @part.action("/users/{id}/rename")
    def rename(id: int, tx: Transaction) -> None:  # noqa: A002
        tx.write("insert into club_name (id) values (:id)", id=id)

    @part.action("/users/{id}/picture", max_body=20_000)
    def picture(id: int, form: Note, file: Upload) -> str:  # noqa: A002
        with file.open() as first:
            head = first.read(4)
        with file.open() as second:
            size = second.seek(0, 2)
        paused.append(f"{id} {form.note} {file.name} {file.size}={size} {head!r}")
        part.__dict__["last"] = file
        return f"{file.name} is your picture"

    @part.action("/users/{id}/files", max_body=3_000_000)
    async def many(id: int, files: list[Upload]) -> str:  # noqa: A002
        paused.extend(f"{id} {each.name} {each.size}" for each in files)
        return f"{len(files)} files"

    @part.action("/users/{id}/note")
    def perhaps(id: int, file: Upload | None) -> str:  # noqa: A002
        paused.append(f"{id} {file and file.name}")
        return "noted"

    @part.action("/users/{id}/delete", confirm="Delete user {id}?")
    async def delete(id: int) -> None:  # noqa: A002
        paused.append(f"deleted {id}")


def with_club(app: App) -> Part:
    part = club()
    app.include(part)
    return part


def paused(part: Part) -> list[str]:
    found: list[str] = part.__dict__["paused"]
    return found
