"""People sign in with an account elsewhere: GitHub's stand-in, by real requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from duework import OAuth, OAuthGrant, Part, Secret, UsageError, http
from duework.face import Person
from systems.twins import Twins, twins
from systems.twins.tests.conftest import Standing
from tests.web.conftest import HERE, OURS, Browser, Site, check_page

BACK = "/crew/oauth/back"


@pytest.fixture(scope="module")
def running() -> Iterator[Twins]:
    with twins(Standing(), "github") as found:
        yield found


@pytest.fixture
def github(running: Twins) -> Any:
    running.github.reset()
    running.github.add_user("ada")
    return running.github


@pytest.fixture
def part(site: Site, github: Any) -> Part:
    part = Part("crew")

    def provider() -> OAuth:
        return OAuth(
            name="GitHub",
            authorize_url=f"{github.url}/login/oauth/authorize",
            token_url=f"{github.url}/login/oauth/access_token",
            client_id=github.logins.client_id,
            client_secret=Secret("github-secret"),
            scope="user:email",
        )

    @part.oauth(provider)
    async def whose(grant: OAuthGrant) -> str | None:
        headers = {"authorization": f"Bearer {grant.access_token}"}
        reply = await http.Client(github.url).get("/user/emails", headers=headers)
        found = [each["email"] for each in reply.check().json() if each["verified"]]
        return found[0] if found else None

    @part.route("/api/crew/me", auth="person")
    def me(person: Person) -> dict[str, str]:
        return {"email": person.email}

    site.app.include(part)
    return part


def begin(browser: Browser, path: str = "/crew/oauth") -> str:
    """Where the provider's page is."""
    answer = browser.get(path)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def allow(where: str, login: str = "ada") -> str:
    """What the provider sends the browser back to, below our own name."""
    reply = httpx2.get(f"{where}&as={login}", headers={"user-agent": "tests"}, trust_env=False)
    assert reply.status_code == 302, reply.text
    return str(reply.headers["location"]).removeprefix(HERE)


def signed_in(browser: Browser) -> str | None:
    answer = browser.get("/api/crew/me")
    return str(answer.json()["email"]) if answer.status_code == 200 else None


def test_somebody_signs_in_with_an_account_elsewhere(site: Site, part: Part) -> None:
    browser = site.browser()
    page = browser.get("/crew/sign-in?back=/crew/mine")
    check_page(page)
    assert 'name="email"' not in page.text, "there is no way to send a link"
    [link] = re.findall(r'href="(/crew/oauth[^"]*)"', page.text)

    back = allow(begin(browser, link.replace("&amp;", "&")))
    assert back.startswith(f"{BACK}?")
    answer = browser.get(back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/crew/mine")
    assert signed_in(browser) == "ada@users.example"
    assert "duework-crew-oauth" not in browser.cookies
    assert browser.post("/crew/sign-in", headers=OURS).status_code == 405


def test_the_provider_gets_a_challenge_and_never_the_verifier(
    site: Site, part: Part, github: Any
) -> None:
    browser = site.browser()
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begin(browser)).query).items()}

    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{HERE}{BACK}"
    kept = browser.cookies["duework-crew-oauth"]
    state, verifier, _ = kept.split("%20")
    assert asked["state"] == state
    assert len(verifier) >= 43
    assert verifier not in str(asked)


def test_a_stolen_code_is_worth_nothing_without_the_verifier(
    site: Site, part: Part, github: Any
) -> None:
    victim, thief = site.browser(), site.browser()
    stolen = parse_qs(urlsplit(allow(begin(victim))).query)["code"][0]
    own = parse_qs(urlsplit(begin(thief)).query)["state"][0]

    answer = thief.get(f"{BACK}?code={stolen}&state={own}")
    assert answer.status_code == 401
    assert "did not take the code" in answer.text
    assert signed_in(thief) is None


def test_an_attempt_of_another_browser_opens_nothing(site: Site, part: Part, github: Any) -> None:
    """Else somebody could sign a victim in to an account of their own."""
    attacker, victim = site.browser(), site.browser()
    back = allow(begin(attacker))
    begin(victim)

    for browser in (victim, site.browser()):
        answer = browser.get(back)
        assert answer.status_code == 400
        assert "Begin again" in answer.text
        assert signed_in(browser) is None
    assert len(github.logins.codes) == 1, "the code was not even shown to the provider"
    assert attacker.get(back).status_code == 303


def test_what_came_back_is_good_once(site: Site, part: Part) -> None:
    browser = site.browser()
    back = allow(begin(browser))
    cookie = browser.cookies["duework-crew-oauth"]

    assert browser.get(back).status_code == 303
    browser.cookies.clear()
    assert browser.get(back).status_code == 400, "the cookie is gone"
    browser.cookies.set("duework-crew-oauth", cookie)
    answer = browser.get(back)
    assert answer.status_code == 401, "and so is the code"
    assert signed_in(browser) is None


def test_whoever_says_no_is_not_signed_in(site: Site, part: Part, github: Any) -> None:
    github.logins.decide("ada", allows=False)
    browser = site.browser()

    answer = browser.get(allow(begin(browser)))
    assert answer.status_code == 401
    assert "GitHub did not let you in: access_denied." in answer.text
    check_page(answer)


def test_an_account_without_an_address_of_its_own_may_not_come_in(
    site: Site, part: Part, github: Any
) -> None:
    github.logins.decide("ada", verified=False)
    browser = site.browser()

    answer = browser.get(allow(begin(browser)))
    assert answer.status_code == 403
    assert "may not sign in here" in answer.text
    assert part.people.find("ada@users.example") is None


@pytest.mark.parametrize("error", ["<script>alert(1)</script>", "x y", "", "é"])
def test_what_a_provider_says_is_not_repeated(site: Site, part: Part, error: str) -> None:
    browser = site.browser()
    state = parse_qs(urlsplit(begin(browser)).query)["state"][0]

    answer = browser.get(BACK, params={"state": state, "error": error})
    assert answer.status_code == 401
    assert "did not let you in: an error." in answer.text


@pytest.mark.parametrize("status", [500, 429])
def test_a_provider_that_is_ill_is_said_and_logged(
    site: Site, part: Part, github: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    browser = site.browser()
    back = allow(begin(browser))
    fault = {"route": "access_token", "calls": "1", "do": "status", "status": status}
    github.faults.set([fault])

    answer = browser.get(back)
    assert answer.status_code == 502
    assert "GitHub does not answer" in answer.text
    assert "the sign-in of crew by GitHub failed" in caplog.text
    code = parse_qs(urlsplit(back).query)["code"][0]
    assert code not in caplog.text


def test_where_it_leads_is_ours(site: Site, part: Part) -> None:
    browser = site.browser()

    back = allow(begin(browser, "/crew/oauth?back=//evil.test/"))
    assert browser.get(back).headers["location"] == "/crew/"


def test_both_ways_in_stand_on_one_page(site: Site, part: Part) -> None:
    @part.sign_in
    def send_link(email: str, url: str) -> None: ...

    page = site.browser().get("/crew/sign-in").text
    assert "Sign in with GitHub" in page
    assert 'name="email"' in page


def test_what_is_declared_wrongly_is_refused(site: Site, part: Part) -> None:
    def provider() -> OAuth:
        raise AssertionError

    with pytest.raises(UsageError, match="one parameter, the grant"):

        @part.oauth(provider)
        def two(grant: OAuthGrant, more: int) -> str: ...

    with pytest.raises(UsageError, match="a provider of accounts already"):

        @part.oauth(provider)
        def again(grant: OAuthGrant) -> str: ...


def test_tokens_of_a_grant_are_not_shown() -> None:
    shown = repr(OAuthGrant("gho_secret", "refresh", {"access_token": "gho_secret"}))

    assert "secret" not in shown
    assert "refresh" not in shown.replace("refresh_token", "")
