"""Files of forms: bounded before they are kept, from those who may, and whatever else is sent is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from starlette.datastructures import UploadFile

from duework import Part
from duework.web.forms import BODY, FIELDS, FILES, file_name
from duework.web.limits.settings import WebSettings
from tests.web.club import paused
from tests.web.conftest import OURS, Browser, Site

KIND = "multipart/form-data; boundary=x"
PICTURE, MANY = "/club/users/7/picture", "/club/users/7/files"


def field(name: str, value: str) -> bytes:
    return f'--x\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def file(
    name: str, content: bytes = b"abc", named: str = 'filename="a.png"', more: str = ""
) -> bytes:
    head = f'--x\r\ncontent-disposition: form-data; name="{name}"; {named}\r\n{more}\r\n'
    return head.encode() + content + b"\r\n"


END = b"--x--\r\n"


def post(browser: Browser, path: str, body: bytes, kind: str = KIND, **headers: str) -> Any:
    given = {**OURS, "content-type": kind, "accept": "application/json", **headers}
    return browser.post(path, content=body, headers=given)


def audit(site: Site) -> list[tuple[Any, ...]]:
    rows = site.app.read("select who, what, target, outcome from duework_audit order by id")
    return [tuple(row) for row in rows]


def test_a_file_comes_with_the_fields_of_its_form_is_audited_and_gone_afterwards(
    site: Site, part: Part, browser: Browser
) -> None:
    answer = browser.post(
        PICTURE,
        data={"form": browser.form_key(), "note": "me", "back": "/club/users/7"},
        files={"file": ("C:\\photos\\me.png", b"\x89PNG" + b"x" * 10_000, "image/png")},
        headers=OURS,
    )

    assert (answer.status_code, answer.headers["location"]) == (303, "/club/users/7")
    assert paused(part) == ["7 me me.png 10004=10004 b'\\x89PNG'"]
    assert "me.png is your picture" in browser.get("/club/users/7").text
    assert audit(site) == [("operate-0", "club.picture", PICTURE, "done")]
    with pytest.raises(ValueError, match="closed file"):
        part.__dict__["last"].open().read()


def test_one_or_none_or_several_as_the_action_says(part: Part, browser: Browser) -> None:
    key = field("form", browser.form_key())
    empty = file("file", b"", 'filename=""')
    large = file("files", b"z" * 2_000_000, 'filename="large"')

    told = [
        post(browser, PICTURE, key + empty + END),
        post(browser, PICTURE, key + file("file") + file("file") + END),
        post(browser, PICTURE, key + file("other") + END),
        post(browser, "/club/users/7/note", key + empty + END),
        post(browser, "/club/users/7/note", key + file("file", b"") + END),
        post(browser, MANY, key + large + file("files", b"") + END),
        post(browser, MANY, key + END),
    ]

    assert [each.status_code for each in told] == [422, 422, 422, 200, 200, 200, 200]
    words = [each.json()["error"]["message"] for each in told[:3]]
    assert words[0] == "Choose a file first."
    assert words[1] == "Send one file at a time."
    assert words[2] == "'other' takes no file: send it as 'file'."
    assert paused(part) == ["7 None", "7 a.png", "7 large 2000000", "7 a.png 0"]


def test_a_plain_form_is_read_too_and_other_actions_take_no_files(
    part: Part, browser: Browser
) -> None:
    key = browser.form_key()

    assert browser.submit("/club/users/7/note").status_code == 303
    assert paused(part) == ["7 None"]
    answer = post(browser, "/club/users/7/pause", field("form", key) + END)
    assert answer.status_code == 415
    assert post(browser, PICTURE, b"{}", "application/json").status_code == 415
    assert paused(part) == ["7 None"]


def hostile(key: str) -> Iterator[tuple[str, bytes, str, int]]:
    """What somebody sends who means no good, or whose line is bad."""
    good = field("form", key)
    yield "no boundary", good + file("files") + END, "multipart/form-data", 400
    yield "another boundary", good + file("files") + END, f"{KIND}y", 400
    yield "a long boundary", good + file("files") + END, f"{KIND}{'y' * 300}", 400
    yield "nothing", b"", KIND, 400
    yield "no multipart", b"form=1&file=2", KIND, 400
    yield "no last boundary", good + file("files"), KIND, 400
    yield "cut in the file", (good + file("files"))[:-4], KIND, 400
    yield "cut in a header", good + b"--x\r\ncontent-disp", KIND, 400
    nameless = b'--x\r\ncontent-disposition: form-data; filename="a"\r\n\r\nabc\r\n'
    yield "no name", good + nameless + END, KIND, 400
    yield "no disposition", good + b"--x\r\n\r\nabc\r\n" + END, KIND, 400
    yield "1000 fields", good + field("a", "") * 1000 + END, KIND, 400
    yield "too many files", good + file("files", b"") * (FILES + 1) + END, KIND, 400
    yield "a long header", good + file("files", more=f"a: {'b' * 9000}\r\n") + END, KIND, 400
    yield "many headers", good + file("files", more="a: b\r\n" * 99) + END, KIND, 400
    yield "a header without a colon", good + file("files", more="a b\r\n") + END, KIND, 400
    yield "a slow charset", good + file("files") + END, f"{KIND}; charset=punycode", 400
    yield "the key as a file", file("form", key.encode()) + file("files") + END, KIND, 403
    yield "no key", file("files") + END, KIND, 403
    yield "another key", field("form", "0" * 64) + file("files") + END, KIND, 403


def test_what_cannot_be_read_is_refused_with_a_sentence_and_no_action_is_called(
    site: Site, part: Part, browser: Browser
) -> None:
    key = browser.form_key()
    for what, body, kind, status in hostile(key):
        answer = post(browser, MANY, body, kind)

        assert answer.status_code == status, (what, answer.text)
        assert len(answer.json()["error"]["message"]) > 15, what
    assert paused(part) == []
    assert audit(site) == []


def test_fields_are_bounded_beside_the_files(part: Part, browser: Browser) -> None:
    key = field("form", browser.form_key())
    one, many = field("a", "b" * (BODY + 1)), field("a", "b" * 1000) * 100

    assert post(browser, MANY, key + one + END).status_code == 400
    assert post(browser, MANY, key + many + END).status_code == 413
    assert post(browser, MANY, key + field("a", "") * (FIELDS - 1) + END).status_code == 200


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('filename="../../etc/passwd"', "passwd"),
        ('filename="C:\\\\windows\\\\a.fit"', "a.fit"),
        ('filename="/"', "file"),
        ('filename=".."', "file"),
        ('filename="a\x00\x1b[1m\x85b.gpx"', "a[1mb.gpx"),
        ('filename="a%0d%0a<b>.gpx"', "a%0d%0a<b>.gpx"),
        ('filename="' + "n" * 900 + '.gpx"', "n" * 196 + ".gpx"),
        ('filename="łąka.gpx"', "łąka.gpx"),
    ],
)
def test_a_name_is_no_path_and_no_header(given: str, kept: str) -> None:
    from python_multipart.multipart import parse_options_header

    _, options = parse_options_header(f"form-data; name=file; {given}".encode())
    assert file_name(options[b"filename"].decode()) == kept


def test_a_header_in_a_file_name_is_one_of_the_part_and_of_no_answer(
    part: Part, browser: Browser
) -> None:
    named = 'filename="a.gpx"\r\nset-cookie: b=c\r\nlocation: http://elsewhere.test'
    body = field("form", browser.form_key()) + file("files", named=named) + END

    answer = browser.post(MANY, content=body, headers={**OURS, "content-type": KIND})

    assert (answer.status_code, answer.headers["location"]) == (303, "/club/")
    assert [each[:5] for each in answer.headers.get_list("set-cookie")] == ["said="]
    assert paused(part) == ["7 a.gpx 3"]


@dataclass
class Asked:
    """What came of a request whose body is sent in pieces, and how many were taken."""

    status: int
    taken: int
    words: str


def ask(browser: Browser, path: str, pieces: list[bytes], **more: str) -> Asked:
    """As a server asks: a piece is read when the application wants it."""
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    given = {"host": "localhost", **OURS, "content-type": KIND, "accept": "application/json"}
    given |= {"cookie": cookie, **more}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "headers": [(k.encode(), v.encode()) for k, v in given.items() if v],
        "client": ("127.0.0.1", 1),
    }
    asked, sent = Asked(0, 0, ""), list(pieces)

    async def receive() -> dict[str, Any]:
        if not sent:
            kind = "http.disconnect" if "cut" in more else "http.request"
            return {"type": kind, "body": b"", "more_body": False}
        asked.taken += 1
        return {"type": "http.request", "body": sent.pop(0), "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        asked.status = message.get("status", asked.status)
        asked.words += message.get("body", b"").decode()

    asyncio.run(browser.app(scope, receive, send))  # type: ignore[arg-type]
    return asked


def test_a_form_that_is_too_long_is_refused_where_it_gets_too_long(
    part: Part, browser: Browser
) -> None:
    start = (
        field("form", browser.form_key()) + b'--x\r\ncontent-disposition: form-data; name="file"'
    )
    pieces = [start + b'; filename="a"\r\n\r\n', *([b"x" * 1000] * 100)]

    told = ask(browser, PICTURE, pieces, **{"content-length": "999999999999"})
    seen = ask(browser, PICTURE, pieces)

    assert (told.status, told.taken) == (413, 0)
    assert (seen.status, seen.taken) == (413, 21)
    message = json.loads(seen.words)["error"]["message"]
    assert message == "A form has at most 20,000 bytes with its files."
    assert paused(part) == []


def test_a_line_that_breaks_leaves_nothing(part: Part, browser: Browser) -> None:
    body = field("form", browser.form_key()) + file("file")

    asked = ask(browser, PICTURE, [body], cut="here")

    assert (asked.status, asked.taken) == (400, 1)
    assert paused(part) == []


def test_a_disk_that_is_full_is_said_and_no_action_is_called(part: Part, browser: Browser) -> None:
    body = field("form", browser.form_key()) + file("file") + END
    with patch.object(UploadFile, "write", side_effect=OSError(28, "full")):
        answer = post(browser, PICTURE, body)

    assert answer.status_code == 507
    assert "No space left" in answer.json()["error"]["message"]
    assert paused(part) == []


def test_nothing_is_read_from_those_who_may_not_send(site: Site, part: Part) -> None:
    operator, reader = site.browser("operate"), site.browser("read")
    slow = site.browser("operate", settings=WebSettings(actions=1))
    slow.submit("/club/users/7/note")
    body = [field("form", operator.form_key()) + file("file") + END]
    foreign = {"origin": "http://elsewhere.test"}

    cases = [
        ask(site.browser(), PICTURE, body),
        ask(site.browser(), PICTURE, body, authorization="Bearer dw_x"),
        ask(reader, PICTURE, body),
        ask(operator, PICTURE, body, **foreign),
        ask(operator, PICTURE, body, host="elsewhere.test"),
        ask(slow, PICTURE, body),
    ]

    assert [each.status for each in cases] == [401, 401, 403, 403, 421, 429]
    assert [each.taken for each in cases] == [0] * 6
    assert paused(part) == ["7 None"]
    assert ask(operator, PICTURE, body).status == 200


def test_a_program_with_a_token_sends_files_without_a_form_key(site: Site, part: Part) -> None:
    token = {"authorization": f"Bearer {site.token('operate')}"}

    answer = site.browser().post(PICTURE, files={"file": ("a.png", b"abc")}, headers=token)

    assert answer.json() == {"outcome": "a.png is your picture"}
    assert paused(part) == ["7  a.png 3=3 b'abc'"]
