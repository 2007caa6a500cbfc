"""Nobody comes in without a token, and nothing is sent by a page of somebody else."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from duework import App, Conflict, NotFound, UsageError
from duework.web.asgi import table
from duework.web.rendering import served_names
from duework.web.tokens import SCOPES, Tokens, hashed
from duework.web.visits import MACHINE
from tests.web.club import with_club
from tests.web.conftest import HERE, OURS, Site, task


def posts() -> list[str]:
    return sorted(page.path for page in table() if page.method == "POST")


def address(path: str, job: int) -> str:
    named = path.replace("{name}", served_names()["ui.css"]).replace("{id:int}", str(job))
    return re.sub(r"\{\w+(:any)?\}", "7", named.replace("{rest:path}", "nowhere"))


@dataclass(frozen=True)
class Door:
    """One line of the router: an address, how it is asked, what it needs, and who answers."""

    path: str
    method: str
    needs: Any
    program: bool


def doors(app: App) -> list[Door]:
    """Every address that the router knows; what refuses a method needs nothing."""
    found = [route for route in app.asgi().inner.routes if route.needs is not None]
    return [
        Door(route.path, method, route.needs, route.for_programs or route.path in MACHINE)
        for route in found
        for method in sorted(route.methods - {"HEAD"})
    ]


def test_every_door_asks_for_its_scope(site: Site) -> None:
    part = with_club(site.app)
    job = task(site.app, "greet").enqueue("ada").id
    visitors: dict[str, str | None] = {
        "nobody": None,
        "wrong": "dw_" + "x" * 43,
        "expired": site.token("admin", "0s"),
        **{scope: site.token(scope) for scope in SCOPES},
    }
    visitors["revoked"] = Tokens(site.app).add("gone", "admin")
    Tokens(site.app).revoke("gone")

    found = doors(site.app)
    assert {page.path for page in table()} < {each.path for each in found}
    assert {"/api/orders/{id}", "/club/users/{id}", "/club/users/{id}/pause"} < {
        each.path for each in found
    }
    assert {each.path for each in found if each.needs == "person"} >= {
        *("/club/mine/{id}", "/club/mine/{id}/stop", "/club/sign-out", "/api/me")
    }
    person = part.people.enter(part.people.entry("eve@other.test"))
    for each in found:
        path = address(each.path, job)
        for who, token in visitors.items():
            check_door(site, each, path, who, token)
        check_door_for_person(site, each, path, person or "")


def check_door_for_person(site: Site, each: Door, path: str, session: str) -> None:
    """Somebody of a part comes to no operator's door, and at their own to no row of another."""
    browser = site.browser()
    browser.cookies.set("duework-club", session)
    headers = OURS if each.method == "POST" else {}
    status = browser.request(each.method, path, headers=headers).status_code
    if each.needs == "person":
        mine = {200} if each.program else {403, 404}
        assert status in mine, (each, status)
    elif each.needs in SCOPES:
        asks = each.method == "GET" and not each.program
        assert status == (303 if asks else 401), (each, status)


def check_door(site: Site, each: Door, path: str, who: str, token: str | None) -> None:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    if token is None and each.method == "POST":
        headers = OURS
    answer = site.browser().request(each.method, path, headers=headers)
    status, case = answer.status_code, (each, who, answer.status_code)
    if each.needs == "":
        refused = {422} if each.path.endswith("/sign-in") else {401}
        assert status in ({200} if each.method == "GET" else refused), case
    elif each.needs == "person" and who == "nobody" and each.method == "GET" and not each.program:
        assert status == 303, case
        assert answer.headers["location"].startswith("/club/sign-in?back=")
    elif each.needs == "public":
        assert status not in {401, 403}, case
    elif each.needs not in SCOPES:
        assert status == 401, case
    elif who in SCOPES:
        allowed = SCOPES.index(who) >= SCOPES.index(each.needs)
        assert (status == 403) is not allowed, case
        assert status != 401
    elif who == "nobody" and each.method == "GET" and not each.program:
        assert status == 303, case
        assert answer.headers["location"].startswith("/login?back=")
    else:
        assert status == 401, case


def test_a_revoked_token_is_the_one_that_was_named(site: Site) -> None:
    tokens = Tokens(site.app)
    kept, gone = tokens.add("kept", "read"), tokens.add("gone", "read")
    browser = site.browser().sign_in(gone)

    tokens.revoke("gone")

    assert tokens.who(gone, "token") == "revoked"
    assert not isinstance(tokens.who(kept, "token"), str)
    assert browser.get("/").status_code == 303
    with pytest.raises(NotFound, match="could be revoked"):
        tokens.revoke("gone")
    with pytest.raises(Conflict, match="another name"):
        tokens.add("gone", "read")


def test_a_scope_that_is_not_there_and_a_name_that_is_none_make_no_token(site: Site) -> None:
    with pytest.raises(UsageError, match="a scope is one of"):
        Tokens(site.app).add("ada", "root")
    with pytest.raises(UsageError):
        Tokens(site.app).add("", "read")
    assert Tokens(site.app).all() == []


def test_secrets_are_not_in_the_database(site: Site) -> None:
    secret = site.token("admin")
    browser = site.browser().sign_in(secret)
    session = next(iter(browser.cookies.values()))

    rows = site.app.read("select * from duework_token")
    stored = " ".join(str(value) for row in rows for value in row)

    assert secret not in stored
    assert session not in stored
    assert hashed(secret) in stored


def test_a_session_is_no_token_and_a_token_no_session(site: Site) -> None:
    secret = site.token("admin")
    browser = site.browser().sign_in(secret)
    session = next(iter(browser.cookies.values()))

    assert (
        site.browser().get("/", headers={"authorization": f"Bearer {session}"}).status_code == 401
    )
    other = site.browser()
    other.cookies.set("duework", secret)
    assert other.get("/").status_code == 303


def test_a_session_ends_when_its_token_expires_and_when_its_owner_signs_out(site: Site) -> None:
    browser = site.browser("read")
    key = browser.form_key()
    session = browser.cookies["duework"]

    assert browser.post("/logout", data={"form": key}, headers=OURS).status_code == 303

    thief = site.browser()
    thief.cookies.set("duework", session)
    assert thief.get("/").status_code == 303

    secret = site.token("read", "1h")
    other = site.browser().sign_in(secret)
    assert other.get("/").status_code == 200
    with site.app.transaction() as tx:
        tx.write("update duework_token set expires = 1 where hash = :hash", hash=hashed(secret))
    assert other.get("/").status_code == 303
    assert "has expired" in site.browser().post("/login", data={"token": secret}, headers=OURS).text


def test_a_login_link_opens_one_session_and_looking_at_it_none(site: Site) -> None:
    code = Tokens(site.app).link()
    first, second = site.browser(), site.browser()

    looked = first.get("/login", params={"code": code})
    assert looked.status_code == 200
    assert not first.cookies

    first.sign_in(code)
    assert first.get("/").status_code == 200
    refused = second.post("/login", data={"token": code}, headers=OURS)
    assert refused.status_code == 401
    assert "used already" in refused.text
    assert site.browser().get("/", headers={"authorization": f"Bearer {code}"}).status_code == 401


def test_the_cookie_is_out_of_reach_for_scripts_and_bound_to_its_host(site: Site) -> None:
    secret = site.token("read")
    near = site.browser().post("/login", data={"token": secret}, headers=OURS)
    flags = near.headers["set-cookie"].lower()
    assert flags.startswith("duework=")
    assert "httponly" in flags
    assert "samesite=lax" in flags

    far = site.browser(public_names=["work.example.com"])
    there = {"host": "work.example.com", "origin": "https://work.example.com"}
    answer = far.post("/login", data={"token": secret}, headers=there)
    flags = answer.headers["set-cookie"]
    assert flags.startswith("__Host-duework=")
    assert "Secure" in flags
    assert "Domain" not in flags


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://evil.test"},
        {"origin": "http://localhost.evil.test"},
        {"origin": "http://localhost:81"},
        {"origin": "http://localhost@evil.test"},
        {"origin": "file://localhost"},
        {"origin": "http://[bad"},
        {"origin": HERE, "sec-fetch-site": "cross-site"},
        {"origin": HERE, "sec-fetch-site": "same-site"},
        {"origin": HERE, "sec-fetch-site": "none"},
        {"referer": HERE + "/"},
    ],
    ids=str,
)
def test_what_another_site_sends_is_refused_at_every_door(
    site: Site, headers: dict[str, str]
) -> None:
    browser = site.browser("admin")
    key = browser.form_key()

    for path in posts():
        data = {"form": key, "queue": "mail", "sure": "yes", "token": "x"}
        assert browser.post(path, data=data, headers=headers).status_code == 403, path

    assert site.app.paused() == []
    assert browser.get("/").status_code == 200


def test_a_form_of_another_session_is_refused(site: Site) -> None:
    browser, other = site.browser("operate"), site.browser("operate")

    for key in ("", "x", other.form_key()):
        answer = browser.post("/queues/pause", data={"form": key, "queue": "mail"}, headers=OURS)
        assert answer.status_code == 403
        assert "another session" in answer.text
    assert site.app.paused() == []
    assert browser.submit("/queues/pause", queue="mail").status_code == 303
    assert site.app.paused() == ["mail"]


def test_a_browser_that_says_where_it_comes_from_needs_no_origin(site: Site) -> None:
    browser = site.browser("operate")
    data = {"form": browser.form_key(), "queue": "mail"}

    answer = browser.post("/queues/pause", data=data, headers={"sec-fetch-site": "same-origin"})

    assert answer.status_code == 303


def test_only_forms_of_a_bounded_size_are_taken(site: Site) -> None:
    browser = site.browser("operate")
    key = browser.form_key()

    big = browser.post("/jobs/retry", data={"form": key, "id": "1" * 70_000}, headers=OURS)
    assert big.status_code == 413
    for kind in ("text/plain", "application/json", "multipart/form-data; boundary=x"):
        headers = {**OURS, "content-type": kind}
        assert browser.post("/jobs/retry", content="id=1", headers=headers).status_code == 415
    many = "&".join(["id=1"] * 400)
    form = {**OURS, "content-type": "application/x-www-form-urlencoded"}
    assert browser.post("/jobs/retry", content=many, headers=form).status_code == 400


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_no_other_method_does_anything(site: Site, method: str) -> None:
    browser = site.browser("admin")

    for page in table():
        assert browser.request(method, address(page.path, 5)).status_code == 405


@pytest.mark.parametrize(
    "host",
    [
        *("evil.test", "127.0.0.1.nip.io", "localhost.evil.test", "localhost:80@evil.test"),
        *("localhost:x", "localhost:123456", "", "10.0.0.1", "[::2]", "localhost evil.test"),
    ],
)
def test_a_name_that_is_not_ours_gets_no_page(site: Site, host: str) -> None:
    for path in ("/", "/health", "/login"):
        answer = site.browser().get(path, headers={"host": host})
        assert answer.status_code == 421
        assert "content-security-policy" in answer.headers


def test_two_names_are_no_name(site: Site) -> None:
    twice = [("host", "localhost"), ("host", "evil.test")]

    assert site.browser().get("/login", headers=twice).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8377", "127.0.0.1:1", "[::1]:8377"])
def test_the_names_of_this_machine_are_ours(site: Site, host: str) -> None:
    assert site.browser().get("/login", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "back",
    ["//evil.test", "https://evil.test", "/\\evil.test", "/ok\r\nset-cookie: x", "javascript:1"],
)
def test_nobody_is_sent_elsewhere_after_signing_in(site: Site, back: str) -> None:
    data = {"token": site.token("read"), "back": back}

    answer = site.browser().post("/login", data=data, headers=OURS)

    assert answer.headers["location"] == "/"


def test_one_comes_back_to_where_one_wanted_to_go(site: Site) -> None:
    browser = site.browser()
    sent = browser.get("/jobs?phase=failed&task=a%20b").headers["location"]
    page = browser.get(sent).text

    assert 'name="back" value="/jobs?phase=failed&amp;task=a%20b"' in page
    data = {"token": site.token("read"), "back": "/jobs?phase=failed&task=a%20b"}
    answer = browser.post("/login", data=data, headers=OURS)
    assert answer.headers["location"] == "/jobs?phase=failed&task=a%20b"


def test_the_first_token_is_made_once_in_a_file_of_its_owner(site: Site, tmp_path: Path) -> None:
    file, tokens = tmp_path / "first.token", Tokens(site.app)

    assert tokens.make_first(file)
    assert not tokens.make_first(file)

    assert os.stat(file).st_mode & 0o777 == 0o600
    who = tokens.who(file.read_text().strip(), "token")
    assert not isinstance(who, str)
    assert who.scope == "admin"
    tokens.revoke("first")
    assert not tokens.make_first(file), "what was revoked does not come back"
    assert tokens.who(file.read_text().strip(), "token") == "revoked"


def test_a_start_that_died_after_the_file_goes_on_with_its_secret(
    site: Site, tmp_path: Path
) -> None:
    file, secret = tmp_path / "first.token", "dw_" + "s" * 43
    file.write_text(secret + "\n")
    file.chmod(0o600)

    assert Tokens(site.app).make_first(file)

    assert not isinstance(Tokens(site.app).who(secret, "token"), str)


def test_a_token_file_that_others_can_read_or_that_is_a_link_is_refused(
    site: Site, tmp_path: Path
) -> None:
    open_to_all, link = tmp_path / "open.token", tmp_path / "link.token"
    open_to_all.write_text("dw_" + "s" * 43)
    open_to_all.chmod(0o644)
    link.symlink_to(tmp_path / "elsewhere")
    odd = tmp_path / "odd.token"
    odd.write_text("hello")
    odd.chmod(0o600)

    for file, words in ((open_to_all, "others can read"), (link, "cannot"), (odd, "no token")):
        with pytest.raises(UsageError, match=words):
            Tokens(site.app).make_first(file)
    assert Tokens(site.app).all() == []
    assert not (tmp_path / "elsewhere").exists()
