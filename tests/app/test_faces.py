"""The web face of a part is checked where it is declared, before anything is served."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from duework import Part, Person, Reply, SharedSecret, Template, Upload, UsageError


class Body(msgspec.Struct):
    name: str


def declared(path: str = "/a", function: Any = None, **options: Any) -> Part:
    part = Part("club")
    part.route(path, **options)(function or (lambda: None))
    return part


@pytest.mark.parametrize("path", ["", "a", "/a b", "/a?x", "/{id", "/{Id}", "/{id}/{id}", "/a\n"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    def handler(id: int) -> None: ...  # noqa: A002

    with pytest.raises(UsageError):
        declared(path, handler)


def test_every_parameter_has_a_place_to_come_from() -> None:
    def lost(name: str) -> None: ...

    def two(a: Body, b: Body) -> None: ...

    def many(*names: str) -> None: ...

    def maybe(body: Body | None) -> None: ...

    def unread(body: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function, words in (
        (lost, "where does 'name' come from"),
        (two, "'b' is one too many"),
        (many, r"no \*names"),
        (maybe, "where does 'body' come from"),
        (unread, "cannot be read"),
    ):
        with pytest.raises(UsageError, match=words):
            declared("/a", function)
    with pytest.raises(UsageError, match="no parameter 'id'"):
        declared("/a/{id}")


@pytest.mark.parametrize("methods", ["POST", [], ["post"], ["HEAD"], ["TRACE"]])
def test_a_method_that_is_none_is_refused(methods: Any) -> None:
    with pytest.raises(UsageError, match="methods are some of"):
        declared(methods=methods)


@pytest.mark.parametrize("auth", ["", "admin", None, 5])
def test_who_may_ask_is_one_of_the_kinds(auth: Any) -> None:
    with pytest.raises(UsageError, match="auth is"):
        declared(auth=auth)


def test_a_shared_secret_is_a_setting_of_the_part() -> None:
    with pytest.raises(UsageError, match="no setting of part club"):
        declared(auth=SharedSecret("server_secret"))


def test_only_a_route_for_people_takes_a_person() -> None:
    def who(person: Person) -> None: ...

    for auth in ("token", "public"):
        with pytest.raises(UsageError, match="takes a Person"):
            declared("/a", who, auth=auth)
    assert declared("/a", who, auth="person").contents.face.routes


def test_one_address_is_declared_once() -> None:
    part = declared(methods=["GET", "POST"])
    with pytest.raises(UsageError, match="already"):
        part.route("/a", methods=["POST"])(lambda: None)
    for declare in (part.page, part.action):
        declare("/b")(lambda: None)
        with pytest.raises(UsageError, match="already"):
            declare("/b")(lambda: None)


def test_topics_and_regions_of_a_page_are_checked() -> None:
    part = Part("club")
    for options, words in (
        ({"live": ("user:{id}",)}, "has no {id}"),
        ({"live": "users"}, "are lists of texts"),
        ({"regions": ("My Region",)}, "id of an element"),
        ({"auth": SharedSecret("x")}, "auth is"),
    ):
        with pytest.raises(UsageError, match=words):
            part.page("/a", **options)(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="confirm"):
        part.action("/a", confirm="Pause {id}?")(lambda: None)
    assert part.contents.face.pages == part.contents.face.actions == []


def test_a_page_takes_no_request_since_it_is_rendered_without_one() -> None:
    from starlette.requests import Request

    def handler(request: Request) -> None: ...

    handler.__annotations__["request"] = Request
    with pytest.raises(UsageError, match="without a request"):
        Part("club").page("/a")(handler)


def test_files_are_for_actions_alone_which_cannot_ask_first_and_say_how_much_they_take() -> None:
    def one(file: Upload) -> None: ...
    def two(file: Upload, other: list[Upload]) -> None: ...
    def none() -> None: ...

    part = Part("club")
    for declare, function, words in (
        (part.route("/a"), one, "forms send them"),
        (part.page("/a"), one, "rendered again"),
        (part.action("/a", confirm="Sure?"), one, "sent once"),
        (part.action("/a", max_body=5), none, "takes no Upload"),
        (part.action("/a"), two, "one too many"),
    ):
        with pytest.raises(UsageError, match=words):
            declare(function)
    part.action("/a")(one)
    part.action("/b", max_body=5)(one)
    part.action("/c")(none)
    assert [each.max_body for each in part.contents.face.actions] == [1_048_576, 5, None]


def test_declaring_a_face_loads_no_web_framework() -> None:
    program = """
import sys, msgspec
from duework import Part, Reply, Template
part = Part("club")
class Body(msgspec.Struct): name: str
@part.route("/a", methods=["POST"])
def a(body: Body) -> Reply: ...
@part.page("/")
def b() -> Template: ...
print([each for each in ("starlette", "jinja2", "uvicorn") if each in sys.modules])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ended.stdout.strip() == "[]"


def test_a_template_keeps_its_values_under_any_name() -> None:
    made = Template("a.html", name="ada", self_="x")

    assert (made.name, made.values) == ("a.html", {"name": "ada", "self_": "x"})
    assert Reply().status == 200
