"""The people of a part: they come in by a mailed link, see their own rows, and are no operators."""

from __future__ import annotations

import re
from typing import Any

import pytest

from duework import App, NotFound, Part, Template, Transaction, UsageError
from duework.clock import Scaled
from duework.people import MOST_LINKS, SESSION_MS, hashed
from duework.web.tokens import Tokens
from tests.web.club import with_club
from tests.web.conftest import HERE, OURS, Browser, Site, check_page


@pytest.fixture
def part(site: Site) -> Part:
    return with_club(site.app)


def mails(part: Part) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = part.__dict__["mails"]
    return found


def asked(site: Site, part: Part, email: str, **more: str) -> str:
    """The link that is mailed to somebody."""
    answer = site.browser().post("/club/sign-in", data={"email": email, **more}, headers=OURS)
    assert answer.status_code == 200, answer.text
    return mails(part)[-1][1]


def entered(site: Site, part: Part, email: str) -> Browser:
    browser = site.browser()
    code = asked(site, part, email).partition("code=")[2].partition("&")[0]
    answer = browser.post("/club/enter", data={"code": code}, headers=OURS)
    assert answer.status_code == 303, answer.text
    return browser


def submit(browser: Browser, page: str, path: str) -> Any:
    key = re.search(r'name="form" value="(\w+)"', browser.get(page).text)
    assert key
    return browser.post(path, data={"form": key[1], "back": page}, headers=OURS)


def test_somebody_comes_in_by_a_mailed_link_and_goes_out(site: Site, part: Part) -> None:
    stranger = site.browser()
    sent = stranger.get("/club/mine/1").headers["location"]
    assert sent == "/club/sign-in?back=/club/mine/1"
    check_page(stranger.get(sent))

    link = asked(site, part, " Ada@Club.test ", back="/club/mine/1")
    assert mails(part)[-1][0] == "ada@club.test"
    assert link.startswith(f"{HERE}/club/enter?code=")
    path = link.removeprefix(HERE)
    assert part.people.find("ada@club.test") is None, "nobody is made before the mailbox is shown"

    check_page(stranger.get(path))
    assert not stranger.cookies, "looking at a link does nothing"
    code = re.search(r'name="code" value="([\w-]+)"', stranger.get(path).text)
    assert code
    data = {"code": code[1], "back": "/club/mine/1"}
    answer = stranger.post("/club/enter", data=data, headers=OURS)
    assert (answer.status_code, answer.headers["location"]) == (303, "/club/mine/1")

    page = stranger.get("/club/mine/1")
    check_page(page)
    assert "ada@club.test" in page.text
    assert "/jobs" not in page.text, "the shell of people has no side bar of operators"
    assert submit(stranger, "/club/mine/1", "/club/mine/1/stop").status_code == 303
    assert "ada@club.test stopped 1" in stranger.get("/club/mine/1").text
    person = part.people.find("ada@club.test")
    assert person is not None
    [line] = site.app.read("select who, what, outcome from duework_audit")
    assert tuple(line) == (f"club person {person.id}", "club.stop", "done")

    assert submit(stranger, "/club/mine/1", "/club/sign-out").status_code == 303
    assert stranger.get("/club/mine/1").status_code == 303


def test_a_link_opens_one_session_within_minutes(site: Site, part: Part) -> None:
    code = asked(site, part, "ada@club.test").partition("code=")[2]

    first = site.browser().post("/club/enter", data={"code": code}, headers=OURS)
    again = site.browser().post("/club/enter", data={"code": code}, headers=OURS)
    assert (first.status_code, again.status_code) == (303, 401)
    assert "used already" in again.text

    old = asked(site, part, "ada@club.test").partition("code=")[2]
    with site.app.transaction() as tx:
        tx.write("update duework_pass set expires = 1 where kind = 'link'")
    assert part.people.enter(old) is None
    assert part.people.enter("") is None


def test_on_a_fast_clock_links_and_sessions_last_in_real_time(emptied: str) -> None:
    """In the demo an hour passes each minute, and people read their mail as slowly as ever."""
    clock = Scaled(60)
    app = App(emptied, clock=clock)
    with_club(app)
    [part] = app.parts
    code = part.people.entry("ada@club.test")
    Tokens(app).open_session(Tokens(app).add("ada", "read"))
    Tokens(app).link()

    def ends(table: str, kind: str) -> float:
        """In how many minutes of the real time."""
        [row] = app.read(f"select expires from {table} where kind = :kind", kind=kind)
        return float((row[0] - app.now()) / 60_000 / clock.speed)

    assert 14 < ends("duework_pass", "link") <= 15
    assert 14 < ends("duework_token", "link") <= 15
    assert 719 < ends("duework_token", "session") <= 720
    part.people.enter(code)
    assert ends("duework_pass", "session") > SESSION_MS / 60_000 - 1
    app.close()


def test_secrets_of_people_are_not_in_the_database(site: Site, part: Part) -> None:
    browser = entered(site, part, "ada@club.test")
    code = asked(site, part, "bob@club.test").partition("code=")[2]
    session = browser.cookies["duework-club"]

    stored = str([tuple(row) for row in site.app.read("select * from duework_pass")])

    assert code not in stored
    assert session not in stored
    assert hashed(session) in stored


def test_somebody_elses_row_is_not_there(site: Site, part: Part) -> None:
    ada, bob = entered(site, part, "ada@club.test"), entered(site, part, "bob@club.test")

    assert ada.get("/club/mine/1").status_code == 200
    assert bob.get("/club/mine/2").status_code == 200
    assert bob.get("/club/mine/1").status_code == 404
    key = re.search(r'name="form" value="(\w+)"', bob.get("/club/mine/2").text)
    assert key
    answer = bob.post("/club/mine/1/stop", data={"form": key[1]}, headers=OURS)
    assert answer.status_code == 303
    assert "There is no such thing of yours" in bob.get("/club/mine/2").text


def test_people_are_no_operators_and_operators_no_people(site: Site, part: Part) -> None:
    person = entered(site, part, "ada@club.test")

    for path in ("/", "/jobs", "/club/", "/club/users/7", "/menu"):
        assert person.get(path).headers["location"].startswith("/login")
    assert person.get("/api/orders/7").status_code == 401
    assert person.post("/club/users/7/pause", headers=OURS).status_code == 401

    operator = site.browser("admin")
    assert operator.get("/club/mine/1").headers["location"].startswith("/club/sign-in")
    assert operator.get("/api/me").status_code == 401
    token = {"authorization": f"Bearer {site.token('admin')}"}
    assert site.browser().get("/club/mine/1", headers=token).status_code == 401
    assert person.get("/api/me", headers=token).status_code == 401, "no cookie counts then"


def test_a_session_of_one_part_opens_nothing_of_another(site: Site, part: Part) -> None:
    browser = entered(site, part, "ada@club.test")
    session = browser.cookies["duework-club"]
    other = Part("other")

    @other.sign_in
    def send(email: str, url: str) -> None: ...

    @other.route("/other-api/me", auth="person")
    def me() -> str:
        return "in"

    site.app.include(other)
    thief = site.browser()
    thief.cookies.set("duework-other", session)

    assert thief.get("/other-api/me").status_code == 401
    assert other.people.enter(asked(site, part, "ada@club.test").partition("code=")[2]) is None


@pytest.mark.parametrize(
    "headers", [{}, {"origin": "http://evil.test"}, {"sec-fetch-site": "cross-site"}], ids=str
)
def test_no_other_site_lets_a_person_act(site: Site, part: Part, headers: dict[str, str]) -> None:
    browser = entered(site, part, "ada@club.test")
    key = re.search(r'name="form" value="(\w+)"', browser.get("/club/mine/1").text)
    assert key
    data = {"form": key[1], "email": "eve@club.test", "code": "x"}

    for path in ("/club/mine/1/stop", "/club/sign-out", "/club/sign-in", "/club/enter", "/api/me"):
        assert browser.post(path, data=data, headers=headers).status_code == 403, path
    assert browser.post("/club/mine/1/stop", data={"form": "x"}, headers=OURS).status_code == 403
    assert browser.get("/club/mine/1").status_code == 200


def test_a_route_for_people_knows_them(site: Site, part: Part) -> None:
    browser = entered(site, part, "ada@club.test")

    assert browser.get("/api/me").json() == {"email": "ada@club.test"}
    assert browser.post("/api/me", headers=OURS).json() == {"email": "ada@club.test"}
    assert site.browser().get("/api/me").status_code == 401


def test_nobody_fills_the_mailbox_of_another(site: Site, part: Part) -> None:
    for _ in range(MOST_LINKS + 2):
        asked(site, part, "ada@club.test")

    assert len(mails(part)) == MOST_LINKS
    assert part.people.entry("ada@club.test"), "who has shown who they are needs no mail"


@pytest.mark.parametrize(
    "email",
    ["", "ada", "ada@", "@club.test", "a b@club.test", "ada@club.test\nbcc: x", "a@b", "x" * 300],
)
def test_what_is_no_address_gets_no_link(site: Site, part: Part, email: str) -> None:
    answer = site.browser().post("/club/sign-in", data={"email": email}, headers=OURS)

    assert answer.status_code == 422
    assert "no e-mail address" in answer.text
    assert mails(part) == []


def test_a_person_is_found_made_once_and_forgotten(site: Site, part: Part) -> None:
    browser = entered(site, part, "ada@club.test")
    asked(site, part, "ada@club.test")
    person = part.people.add("ADA@club.test")

    assert part.people.get(person.id) == part.people.find("ada@club.test") == person
    part.people.forget(person.id)

    assert browser.get("/club/mine/1").status_code == 303
    assert site.app.read("select * from duework_pass") == []
    assert site.app.read("select * from duework_person") == []
    for again in (part.people.get, part.people.forget):
        with pytest.raises(NotFound):
            again(person.id)


def test_a_session_ends_by_itself(site: Site, part: Part) -> None:
    browser = entered(site, part, "ada@club.test")
    with site.app.transaction() as tx:
        tx.write("update duework_pass set expires = expires - :ms", ms=SESSION_MS)

    assert browser.get("/club/mine/1").status_code == 303


def test_the_link_and_its_mail_are_one_commit(app: App) -> None:
    part = Part("club")

    @part.task
    def mail(email: str, url: str) -> None: ...

    @part.sign_in
    def send(email: str, url: str, tx: Transaction) -> None:
        tx.enqueue(mail, email, url)
        if email.startswith("eve"):
            raise UsageError("not here")

    app.include(part)
    site = Site(app)
    browser = site.browser()
    assert (
        browser.post("/club/sign-in", data={"email": "a@b.test"}, headers=OURS).status_code == 200
    )
    assert len(app.jobs(task="club.mail")) == 1
    assert (
        browser.post("/club/sign-in", data={"email": "eve@b.test"}, headers=OURS).status_code == 400
    )
    assert len(app.jobs(task="club.mail")) == 1
    assert len(app.read("select * from duework_pass")) == 1


def test_pages_for_people_need_a_way_to_send_links(site: Site) -> None:
    part = Part("club")

    @part.page("/", auth="person")
    def front() -> Template:
        return Template("club.html")

    site.app.include(part)
    with pytest.raises(UsageError, match=r"@part\.sign_in"):
        site.app.asgi()
