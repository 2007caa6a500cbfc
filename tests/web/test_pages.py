"""What the pages show, on both databases: text stays text, and a look costs the same with many jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from duework import App, Rate
from duework.web.api.door import operations
from duework.web.asgi import table
from duework.web.pages import FILTERS
from duework.web.rendering import static_files
from tests.web.conftest import OURS, Browser, Site, Tags, check_page, task, work

PAGES = ["/", "/jobs", "/jobs?phase=failed", "/jobs?phase=waiting&task=greet&key=x", "/menu"]
PAGES += ["/queues/pause?queue=*", "/nowhere", "/jobs/5", "/login", "/jobs?before=1"]


def text_of(page: str) -> str:
    return " ".join(" ".join(Tags(page).texts).split())


def test_an_empty_database_says_so_and_what_to_do(site: Site) -> None:
    browser = site.browser("read")

    assert "Nothing has been enqueued yet" in browser.get("/").text
    assert "No jobs yet" in browser.get("/jobs").text
    assert "No failed jobs: good" in browser.get("/jobs?phase=failed").text
    assert "Nothing found" in browser.get("/jobs?key=nobody").text


def test_the_overview_says_what_needs_somebody(site: Site) -> None:
    task(site.app, "fails").enqueue("no")
    work(site.app)
    task(site.app, "fails").enqueue("again")
    site.app.pause("mail")
    old = task(site.app, "greet").using(at=1_700_000_000_000).enqueue("ada")
    stranger = App(site.app.wiring.bound.url)

    @stranger.task(name="elsewhere")
    def elsewhere() -> None: ...

    elsewhere.using(delay="1h").enqueue()
    stranger.close()

    page = text_of(site.browser("operate").get("/").text)

    assert "Work is stuck: 3 things need you" in page
    assert "Overview 3 things need you" in page, "in the side bar"
    assert "1 of elsewhere waits, and this App does not know the task" in page
    assert f"Job {old.id} of greet has been ready for" in page
    assert "1 of fails failed and is not tried again: ValueError: no" in page
    assert "Queue mail is paused" not in page, "not for ten minutes yet"
    assert old.refresh().phase == "ready"


def test_a_database_that_cannot_be_written_is_said_first_on_the_page_of_a_job(site: Site) -> None:
    job = task(site.app, "greet").using(delay="1h").enqueue("ada")
    browser, writer = site.browser("operate"), site.app.wiring.engine.writer
    writer.parked = "the disk is full: free some space"

    page = browser.get(f"/jobs/{job.id}").text
    writer.parked = None

    said = page.index("The database could not be written when last tried: the disk is full")
    assert said < page.index("as asked for")


def test_health_tells_strangers_a_word_and_the_others_why(site: Site) -> None:
    browser = site.browser()
    assert browser.get("/health").json() == {"status": "ok"}

    task(site.app, "greet").using(at=1_700_000_000_000).enqueue("ada")
    stuck = browser.get("/health")
    assert stuck.status_code == 503
    assert stuck.json() == {"status": "stuck"}

    token = {"authorization": f"Bearer {site.token('read')}"}
    told = browser.get("/health", headers=token).json()
    assert told["stuck"] == [["default", "greet"]]
    assert told["needs"][0]["kind"] == "no worker"

    site.app.pause()
    assert browser.get("/health").status_code == 200, "paused by somebody is not stuck"


def test_what_a_pace_holds_is_as_planned(site: Site) -> None:
    @site.app.task(pace=Rate("1/1h", name="strava"))
    async def slow() -> None: ...

    for _ in range(3):
        slow.using(at=1_700_000_000_000).enqueue()
    work(site.app)
    [line] = [line for line in site.app.status().tasks if line.task == slow.name]
    browser = site.browser("read")

    assert line.ready == 2
    assert line.pace == "strava"
    assert line.held_until is not None
    assert line.held_until > site.app.now()
    assert browser.get("/health").json()["status"] == "ok"
    page = text_of(browser.get("/").text)
    assert "Nothing needs you" in page
    assert "pace strava until" in page


def test_an_error_is_told_to_a_program_as_to_the_command_line(site: Site) -> None:
    token = {"authorization": f"Bearer {site.token('read')}"}

    answer = site.browser().get("/jobs/5", headers=token)

    assert answer.json() == {"error": {"code": "not_found", "message": "there is no job 5"}}


def test_jobs_are_found_by_phase_task_queue_and_key(site: Site) -> None:
    failing = task(site.app, "fails").using(key="user:1").enqueue("no")
    work(site.app)
    waiting = task(site.app, "greet").using(delay="1h", key="user:2").enqueue("ada")
    browser = site.browser("read")

    def ids(query: str) -> set[int]:
        tags = Tags(browser.get(f"/jobs?{query}").text)
        return {
            int(a["value"] or 0) for t, a in tags.found if t == "input" and a.get("name") == "id"
        }

    assert ids("") == {failing.id, waiting.id}
    assert ids("phase=failed") == {failing.id}
    assert ids("phase=waiting") == {waiting.id}
    assert ids("queue=mail") == {failing.id}
    assert ids("task=greet") == {waiting.id}
    assert ids("key=user:1") == {failing.id}
    assert ids("task=greet&key=user:1") == set()
    assert browser.get("/jobs?phase=odd").status_code == 400
    assert browser.get("/jobs?before=x").status_code == 400
    assert browser.get(f"/jobs?q={waiting.id}").headers["location"] == f"/jobs/{waiting.id}"
    assert browser.get("/jobs?q=greet").headers["location"] == "/jobs?task=greet"
    assert browser.get("/jobs?q=user:9").headers["location"] == "/jobs?key=user%3A9"


def test_pages_of_jobs_follow_each_other_without_a_gap(site: Site) -> None:
    made = [
        job.id for job in task(site.app, "greet").enqueue_many([(f"n{i}",) for i in range(120)])
    ]
    browser = site.browser("read")
    seen: list[int] = []
    path = "/jobs?task=greet"
    while path:
        tags = Tags(browser.get(path).text)
        seen += [
            int(a["value"] or 0) for t, a in tags.found if t == "input" and a.get("name") == "id"
        ]
        hrefs = [a.get("href") or "" for t, a in tags.found if t == "a"]
        path = next((href for href in hrefs if "before=" in href), "")

    assert seen == sorted(made, reverse=True)


def test_one_job_shows_its_life(site: Site) -> None:
    failing = task(site.app, "fails").using(key="user:1").enqueue("no way")
    waiting = task(site.app, "retries").enqueue()
    done = task(site.app, "greet").enqueue("ada")
    work(site.app)
    later = task(site.app, "greet").using(delay="1h").enqueue("bob")
    after = task(site.app, "greet").using(after=later).enqueue("eve")
    browser = site.browser("operate")

    page = text_of(browser.get(f"/jobs/{failing.id}").text)
    assert "ValueError: no way" in page
    assert "Attempt 1" in page
    assert "user:1" in page
    assert "Retry" in page
    assert "Retry 1 of 1 in 59 min : ValueError: try again" in text_of(
        browser.get(f"/jobs/{waiting.id}").text
    )
    assert '"hello ada"' in text_of(browser.get(f"/jobs/{done.id}").text)
    assert "Due in 59 min" in text_of(browser.get(f"/jobs/{later.id}").text)
    assert f"After job {later.id}, which is due" in text_of(browser.get(f"/jobs/{after.id}").text)
    site.app.pause()
    assert "Everything is paused" in text_of(browser.get(f"/jobs/{later.id}").text)


def test_a_job_that_is_not_there_explains_retention(site: Site) -> None:
    for number in (5, 2**63, 10**30):
        answer = site.browser("read").get(f"/jobs/{number}")
        assert answer.status_code == 404
        assert "is kept for as long as its task says" in answer.text


def test_a_reader_sees_buttons_and_what_they_need_and_cannot_press_them(site: Site) -> None:
    failing = task(site.app, "fails").enqueue("no")
    work(site.app)
    browser = site.browser("read")

    page = browser.get(f"/jobs/{failing.id}").text
    assert "needs the scope operate" in page
    refused = browser.submit("/jobs/retry", id=failing.id)
    assert refused.status_code == 403
    assert "needs the scope operate" in refused.text
    assert site.app.job(failing.id).state == "failed"
    assert audit(site.app) == []


def audit(app: App) -> list[tuple[Any, ...]]:
    rows = app.read("select who, what, target, why, outcome from duework_audit order by id")
    return [tuple(row) for row in rows]


def test_jobs_are_retried_and_it_is_written_down(site: Site) -> None:
    failing = [task(site.app, "fails").enqueue("no").id for _ in range(2)]
    work(site.app)
    browser = site.browser("operate")

    answer = browser.submit("/jobs/retry", id=failing, back="/jobs?phase=failed")

    assert answer.headers["location"] == "/jobs?phase=failed"
    assert [site.app.job(each).state for each in failing] == ["open", "open"]
    who = "operate-0"
    assert audit(site.app) == [(who, "retry", f"job {each}", "", "revived") for each in failing]
    assert "2 opened again" in browser.get("/jobs").text
    assert "2 opened again" not in browser.get("/jobs").text, "told once"


def test_a_retry_that_meets_a_taken_key_says_who_has_it(site: Site) -> None:
    failing = task(site.app, "fails").using(key="user:1").enqueue("no")
    work(site.app)
    holder = task(site.app, "fails").using(key="user:1", delay="1h").enqueue("next")
    browser = site.browser("operate")

    browser.submit("/jobs/retry", id=failing.id)

    assert f"is held by job {holder.id}" in browser.get("/jobs").text
    assert site.app.job(failing.id).state == "failed"
    assert audit(site.app) == [], "what did not happen is not written down"


def test_a_job_is_cancelled_after_a_question_and_with_a_reason(site: Site) -> None:
    waiting = task(site.app, "greet").using(delay="1h").enqueue("ada")
    browser = site.browser("operate")

    asked = browser.submit("/jobs/cancel", id=waiting.id)
    assert asked.status_code == 200
    assert f"Cancel job {waiting.id}?" in asked.text
    assert "1 that wait will not run" in asked.text
    assert site.app.job(waiting.id).state == "open"

    done = browser.submit("/jobs/cancel", id=waiting.id, sure="yes", why="ordered twice")
    assert done.status_code == 303
    assert site.app.job(waiting.id).state == "cancelled"
    assert site.app.job(waiting.id).error == "ordered twice"
    assert audit(site.app)[0][1:] == ("cancel", f"job {waiting.id}", "ordered twice", "cancelled")


def test_queues_are_paused_and_resumed(site: Site) -> None:
    task(site.app, "fails").enqueue("no")
    browser = site.browser("operate")

    browser.submit("/queues/pause", queue="mail")
    assert site.app.paused() == ["mail"]
    browser.submit("/queues/resume", queue="mail")
    assert site.app.paused() == []
    assert browser.submit("/queues/pause", queue="*").status_code == 200, "asks first"
    assert site.app.paused() == []
    browser.submit("/queues/pause", queue="*", sure="yes", why="deploy")
    assert site.app.paused() == ["*"]
    assert browser.submit("/queues/pause", queue="").status_code == 400
    assert [row[1:] for row in audit(site.app)] == [
        ("pause", "queue mail", "", "paused"),
        ("resume", "queue mail", "", "resumed"),
        ("pause", "queue *", "deploy", "paused"),
    ]


def test_a_program_acts_with_its_token_and_is_answered_in_json(site: Site) -> None:
    failing = task(site.app, "fails").enqueue("no")
    work(site.app)
    token = {"authorization": f"Bearer {site.token('operate')}"}

    answer = site.browser().post("/jobs/retry", data={"id": [failing.id, 5]}, headers=token)

    assert answer.status_code == 409
    assert answer.json()["outcomes"] == {str(failing.id): "revived", "5": "not_found"}


@pytest.mark.parametrize("ids", [[], ["x"], ["-1"], [str(2**63)], [str(i) for i in range(101)]])
def test_a_form_with_odd_ids_changes_nothing(site: Site, ids: list[str]) -> None:
    browser = site.browser("operate")

    assert browser.submit("/jobs/retry", id=ids).status_code == 400
    assert browser.submit("/jobs/cancel", id=ids, sure="yes").status_code == 400


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "'><b id=x>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</pre><script>alert(1)</script>",
    "</svg><script>alert(1)</script>",
    "</time><iframe srcdoc='<script>alert(1)</script>'>",
    "<!--<script>alert(1)//-->",
    "--><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "{{ 7 * 7 }}{% include 'base.html' %}",
    "{{ self.__init__.__globals__ }}",
    "{% for x in () %}",
    "${7*7}#{7*7}<%= 7*7 %>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    "` onclick=`alert(1)",
    "x style=color:red y=",
    '" style="background:url(//evil.test)',
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=//evil.test>",
    "<base href=//evil.test>",
    "<form action=//evil.test><input name=form>",
    "<meta http-equiv=refresh content='0;url=//evil.test'>",
    "<object data=//evil.test></object><embed src=//evil.test>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<details open ontoggle=alert(1)>",
    "<svg><use href=//evil.test#x></svg>",
    "<template><script>alert(1)</script></template>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)",
    "\u2028<script>alert(1)</script>\u2029",
    "\u202e<script>alert(1)",
    "ｓｃｒｉｐｔ＜script＞",  # noqa: RUF001 - that it looks alike is the point
    "\x1b[2J<script>",
    "x" * 128,
    "<" * 60,
]


def elements(answer: Any) -> Counter[str]:
    return Counter(tag for tag, _ in check_page(answer).found)


def test_whatever_is_stored_stays_text_on_every_page(site: Site) -> None:
    innocent = task(site.app, "fails").using(key="plain").enqueue("plain").id
    made = [task(site.app, "fails").using(key=text[:200]).enqueue(text).id for text in HOSTILE]
    work(site.app)
    browser = site.browser("operate")
    plain = elements(browser.get(f"/jobs/{innocent}"))
    shown = ""
    for job in made:
        answer = browser.get(f"/jobs/{job}")
        assert elements(answer) == plain, "the page of a hostile job has the elements of any other"
        shown += "".join(Tags(answer.text).texts)
    for text in (
        "<script>alert(1)</script>",
        "{{ 7 * 7 }}",
        "&lt;script&gt;",
        "<img src=x onerror=",
    ):
        assert text in shown, "shown as it is"

    rows = elements(browser.get("/jobs?task=fails"))
    assert rows["tr"] == len(HOSTILE) + 2
    assert rows["script"] == 3
    assert rows["b"] == 3
    assert elements(browser.get("/"))["script"] == 3


def test_whatever_is_asked_for_stays_text(site: Site) -> None:
    browser = site.browser("operate")
    found = {name: elements(browser.get("/jobs", params={name: "plain"})) for name in FILTERS}
    paused = elements(browser.get("/queues/pause", params={"queue": "plain"}))
    login = elements(browser.get("/login", params={"code": "plain"}))
    lost = elements(browser.get("/plain"))

    for text in HOSTILE:
        for name in FILTERS:
            assert elements(browser.get("/jobs", params={name: text})) == found[name]
        answer = browser.get("/queues/pause", params={"queue": text})
        assert answer.status_code == 400 or elements(answer) == paused
        assert elements(browser.get("/login", params={"code": text, "back": text})) == login
        assert elements(browser.get("/" + quote(text, safe=""))) == lost


def test_what_an_action_said_stays_text(site: Site) -> None:
    browser = site.browser("read")
    browser.cookies.set("said", "bad%20%3Cscript%3Ealert(1)%3C/script%3E")

    tags = check_page(browser.get("/"))

    assert any("<script>alert(1)" in text for text in tags.texts)


def test_every_page_keeps_the_policy_and_has_nothing_inline(site: Site) -> None:
    task(site.app, "fails").enqueue("no")
    work(site.app)
    for browser in (site.browser(), site.browser("read"), site.browser("admin")):
        for path in PAGES:
            answer = browser.get(path)
            if answer.status_code != 303:
                check_page(answer)
    bare = site.browser().get("/", headers={"authorization": "Bearer x"})
    assert "content-security-policy" in bare.headers


def test_pages_of_people_are_kept_by_nobody_and_files_for_ever(site: Site) -> None:
    browser = site.browser("read")

    assert browser.get("/").headers["cache-control"] == "no-store"
    for name, (body, kind) in static_files().items():
        answer = browser.get(f"/static/{name}")
        assert answer.content == body
        assert answer.headers["content-type"].startswith(kind)
        assert "immutable" in answer.headers["cache-control"]
    assert browser.get("/static/ui.css").status_code == 404
    assert browser.get("/static/..%2fasgi.py").status_code in {303, 404}


def test_a_look_costs_the_same_however_many_jobs_there_are(
    site: Site, statements: Callable[[Callable[[], Any]], int]
) -> None:
    task(site.app, "greet").enqueue("ada")
    browser = site.browser("read")
    paths = ["/", "/?range=7d", "/jobs", "/jobs?phase=ready", "/health", "/metrics"]
    before = [statements(lambda p=path: browser.get(p)) for path in paths]

    task(site.app, "greet").enqueue_many([(f"n{i}",) for i in range(500)])
    task(site.app, "greet").using(delay="1h").enqueue_many([(f"n{i}",) for i in range(500)])

    assert [statements(lambda p=path: browser.get(p)) for path in paths] == before
    assert max(before) <= 18


@pytest.mark.parametrize("mounted", [False, True])
def test_the_pages_work_below_a_prefix(site: Site, mounted: bool) -> None:
    made = task(site.app, "greet").enqueue("ada")
    around = Starlette(routes=[Mount("/ops", site.app.asgi())])
    served = around if mounted else site.app.asgi("/ops")
    browser = Browser(served, base_url="http://localhost", follow_redirects=False)

    assert browser.get("/ops/").headers["location"] == "/ops/login?back=/"
    answer = browser.post("/ops/login", data={"token": site.token("read")}, headers=OURS)
    assert answer.headers["location"] == "/ops/"
    page = check_page(browser.get("/ops/jobs"))
    links = [a.get("href") or "" for tag, a in page.found if tag in {"a", "link", "use"}]
    assert f"/ops/jobs/{made.id}" in links
    # An empty one is this page itself, to reload it.
    assert all(link.startswith(("/ops", "#")) for link in links if link)
    assert all(browser.get(link).status_code == 200 for link in links if "/static/" in link)
    assert browser.get(f"/ops/jobs/{made.id}").status_code == 200


def test_light_and_dark_are_chosen_without_a_script(site: Site) -> None:
    browser = site.browser("read")

    assert "data-theme" not in browser.get("/").text
    browser.submit("/theme", theme="dark")
    assert 'data-theme="dark"' in browser.get("/").text
    assert browser.submit("/theme", theme="<x>").status_code == 400
    browser.submit("/theme", theme="")
    assert "data-theme" not in browser.get("/").text


def test_every_door_is_in_the_table(site: Site) -> None:
    inner: Any = site.app.asgi().inner

    found = [(route.path, route.needs) for route in inner.routes]
    pages = [each for each in found if not each[0].startswith("/api/v1")]
    assert pages == [("/live", None), *((page.path, page.scope) for page in table())]
    assert len(found) - len(pages) == len(operations()) + 4


def test_a_filter_that_matches_nothing_looks_at_so_many_jobs_and_offers_to_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duework.verbs.LOOK", 10)
    greet = task(site.app, "greet")
    wanted = greet.using(key="old").enqueue("ada")
    greet.enqueue_many([(f"n{number}",) for number in range(25)])
    browser = site.browser("read")

    path, pages = "/jobs?key=old", 0
    while path:
        answer = browser.get(path)
        check_page(answer)
        pages += 1
        found = f"/jobs/{wanted.id}" in answer.text
        assert found is (pages == 3)
        if pages < 3:
            assert "10 jobs were searched, and there are older ones" in text_of(answer.text)
        links = [a for tag, a in Tags(answer.text).found if tag == "a"]
        older = [str(a["href"]) for a in links if "before=" in str(a.get("href"))]
        path = older[-1] if older else ""
    assert pages == 3

    first = browser.get("/jobs?phase=waiting").text
    assert "Search older ones" in first
    assert "None of the newest 10 jobs is waiting; older ones were not searched" in text_of(first)
    assert "No job is waiting" not in text_of(first)
    assert "All jobs that are kept were searched" in browser.get("/jobs?key=x&before=1").text
