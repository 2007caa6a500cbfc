"""The pages of shapes and of the machine, on both databases: what they show and do, what that costs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from duework import App
from duework.clock import as_datetime
from duework.web.asgi import table
from duework.web.table import NavItem, OwnPage, asking, found_pages, navigation
from tests.web.conftest import Browser, Site, Tags, check_page, task, work
from tests.web.shapes import Basket, Letter, Shapes
from tests.web.test_pages import HOSTILE, audit, elements, text_of

PAGES = [
    "/failed",
    "/failed?task=check",
    "/queues",
    "/queues/one?queue=crawl",
    "/schedules",
    "/schedules?range=7d&prefix=h",
    "/schedules/one?key=london",
    "/schedules/edit?key=london",
    "/batches",
    "/batches/{batch}",
    "/batches/{open_batch}",
    "/chains",
    "/chains?state=failed",
    "/chains/{chain}",
    "/deliveries",
    "/deliveries/{delivery}",
    "/outboxes",
    "/outboxes/one?name=email",
    "/outboxes/one?name=email&state=unsure",
    "/outboxes/messages/{message}",
    "/paces",
    "/paces/one?name=strava",
    "/paces/one?name=enrich:adaptive",
    "/objects",
    "/objects?kind=Basket&prefix=a",
    "/objects/one?kind=Basket&key=acme",
    "/workers",
    "/audit",
    "/doctor",
]


@pytest.fixture
def shapes(site: Site) -> Shapes:
    return Shapes(site.app)


def page_of(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, (path, answer.text[-500:])
    return text_of(answer.text)


def said(browser: Browser) -> str:
    """What the last action told."""
    text = browser.get("/menu").text
    return text.partition('id="toasts"')[2].partition("</div>")[0]


# --- looking


def test_every_page_shows_its_rows_and_opens_with_a_verdict(site: Site, shapes: Shapes) -> None:
    found = shapes.seed()

    for scope in ("read", "admin"):
        browser = site.browser(scope)
        for path in PAGES:
            if scope == "read" and "/edit" in path:
                continue
            answer = browser.get(path.format(**found))
            assert answer.status_code == 200, (path, answer.text[-500:])
            tags = check_page(answer)
            assert any(attributes.get("id") == "verdict" for _, attributes in tags.found), path
            assert not [t for t in tags.found if t[0] == "th" and "role" not in t[1]], path


def test_every_page_is_marked_in_the_side_bar_and_has_the_tabs_of_a_phone(site: Site) -> None:
    browser = site.browser("read")

    for path in ("/", "/jobs", *(page.path for page in found_pages() if page.nav is not None)):
        tags = Tags(browser.get(path).text)
        current = [a["href"] for _, a in tags.found if a.get("aria-current") == "page"]
        assert path in current, path
        bar = browser.get(path).text.partition('class="tabbar"')[2].partition("</nav>")[0]
        assert bar.count("<a ") == 5, path


def test_every_page_says_what_would_stand_there(site: Site) -> None:
    browser = site.browser("read")
    words = {
        "/failed": "No failed jobs: good",
        "/queues": "No queue has jobs yet",
        "/schedules": "No schedules",
        "/batches": "No batches yet",
        "/chains": "No chains yet",
        "/events": "No events yet",
        "/sweeps": "No sweeps yet",
        "/deliveries": "No deliveries yet",
        "/outboxes": "No messages yet",
        "/paces": "No paces",
        "/steps": "No workflows",
        "/budgets": "No budgets",
        "/objects": "No objects yet",
        "/blobs": "No blobs",
        "/metrics/names": "No metrics yet",
        "/workers": "No worker has left a row",
        "/audit": "Nobody has done anything yet",
        "/doctor": "checks",
    }

    listed = {page.path for page in found_pages() if page.nav is not None}
    assert listed == words.keys()
    for path, wanted in words.items():
        assert wanted in page_of(browser, path), path


def test_what_is_not_there_is_not_found(site: Site) -> None:
    browser = site.browser("admin")

    for path in (
        "/queues/one?queue=x",
        "/schedules/one?key=x",
        "/schedules/edit?key=x",
        "/batches/5",
        "/events/5",
        "/sweeps/one?name=x",
        "/chains/5",
        "/deliveries/5",
        "/outboxes/one?name=x",
        "/outboxes/messages/5",
        "/paces/one?name=x",
        "/objects/one?kind=x&key=y",
        f"/deliveries/{2**70}",
        f"/outboxes/messages/{2**70}",
        f"/batches/{2**70}",
        f"/chains/{2**70}",
    ):
        assert browser.get(path).status_code == 404, path
    for path in (
        "/queues/one",
        "/schedules/one",
        "/schedules?range=x",
        "/batches?before=x",
        "/chains?state=x",
        "/outboxes/one",
        "/paces/one",
        "/objects/one?kind=x",
        "/audit?before=-1",
        "/workers?worker=x",
        f"/audit?who={'x' * 301}",
    ):
        assert browser.get(path).status_code == 400, path


def test_the_side_bar_counts_what_needs_somebody(site: Site, shapes: Shapes) -> None:
    shapes.seed()
    page = Tags(site.browser("read").get("/menu").text)

    texts = " ".join(" ".join(page.texts).split())
    assert "Failed 14 failed" in texts
    assert "Deliveries 2 unsure" in texts
    assert "Outboxes 2 unsure or failed" in texts


def test_a_page_that_is_found_stands_in_its_group() -> None:
    new = OwnPage("/budgets", lambda _: None, nav=NavItem("Budgets", "budgets", "Outside"))  # type: ignore[arg-type, return-value]
    odd = OwnPage("/x", lambda _: None, nav=NavItem("X", "x", "Elsewhere"))  # type: ignore[arg-type, return-value]

    groups = {group.name: group.items for group in navigation([*found_pages(), new, odd])}

    assert list(groups) == ["", "Work", "Outside", "State", "Elsewhere", "Machine"]
    assert [item.title for _, item in groups["Outside"]][-1] == "Budgets"
    assert asking(new.nav, "/budgets", []) == 0  # type: ignore[arg-type]


# --- text stays text


def plant(site: Site, shapes: Shapes, texts: list[str]) -> None:
    """Put a text wherever somebody can put one."""
    app = site.app
    for text in texts:
        key = text[:100]
        app.schedule(shapes.report, key=key, cron="0 * * * *", owner=key, why=key)
        app.batch(shapes.check, [4], name=key)
        app.object(Basket, key).put(text).result()
        shapes.mail.using(key=key, lane=key).enqueue(Letter(text, text))
        shapes.notify.using(key=key).enqueue(text)
        task(app, "fails").using(key=key).enqueue(text)
    work(app)
    browser = site.browser("operate")
    for text in texts:
        browser.submit("/queues/pause", queue="mail", why=text)


def tags_of(browser: Browser, path: str) -> set[str]:
    answer = browser.get(path)
    assert answer.status_code == 200, path
    found = elements(answer)
    assert found["script"] == 3, path
    return set(found)


def test_whatever_is_stored_stays_text_on_the_pages_of_shapes(site: Site, shapes: Shapes) -> None:
    known = shapes.seed()
    paths = [path.format(**known) for path in PAGES]
    browser = site.browser("admin")
    plain = {path: tags_of(browser, path) for path in paths}

    plant(site, shapes, HOSTILE)

    allowed = {"form", "input", "button", "nav", "footer", "b", "code", "time", "p", "a", "title"}
    allowed |= {"ol", "ul", "li", "section", "span", "header", "h2", "table", "div", "use", "label"}
    allowed |= {"details", "summary", "pre", "thead", "tbody", "tr", "td", "th", "svg", "text"}
    allowed |= {"rect", "path", "line", "g", "defs", "dl", "dt", "dd"}
    for path in paths:
        assert tags_of(browser, path) <= plain[path] | allowed, path
    for text in HOSTILE:
        key = quote(text[:100], safe="")
        for path in (f"/schedules/one?key={key}", f"/schedules/edit?key={key}"):
            tags_of(browser, path)
        tags_of(browser, f"/objects/one?kind=Basket&key={key}")


def test_whatever_is_asked_for_stays_text_on_every_page(site: Site) -> None:
    browser = site.browser("admin")
    names = ("queue", "task", "error", "key", "name", "prefix", "kind", "who", "what", "lane")
    paths = [
        page.path
        for page in table()
        if page.method == "GET" and "{" not in page.path and page.scope != ""
    ]

    assert {"/failed", "/paces/one", "/audit"} < set(paths)
    for path in paths:
        for text in HOSTILE:
            answer = browser.get(path, params=dict.fromkeys(names, text))
            assert answer.status_code in {200, 303, 400, 404}, (path, text)
            if answer.headers["content-type"].startswith("text/html"):
                assert elements(answer)["script"] <= 3, (path, text)


# --- what a look costs


def test_a_look_at_a_shape_costs_the_same_however_many_rows_there_are(
    site: Site,
    shapes: Shapes,
    statements: Callable[[Callable[[], Any]], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = shapes.seed()
    # What becomes ready between two looks is asked about by a statement more: time stands still.
    now, engine = site.app.now(), site.app.wiring.engine
    monkeypatch.setattr(engine.clock, "now", lambda: now)
    monkeypatch.setattr(engine.clock_watch, "checked_now", lambda: now)
    browser = site.browser("read")
    paths = [path.format(**found) for path in PAGES]
    before = {path: statements(lambda p=path: browser.get(p)) for path in paths}

    app = site.app
    app.batch(shapes.check.using(delay="1h"), range(300), name="more")
    for number in range(60):
        app.batch(shapes.check.using(delay="1h"), [number], name="more")
        shapes.sync.using(delay="1h").start(athlete=1000 + number)
        app.schedule(shapes.report, key=f"more-{number}", cron="0 * * * *")
    shapes.mail.enqueue_many([Letter(f"x{number}@example.org", "x") for number in range(200)])
    shapes.fetch.enqueue_many([(number,) for number in range(300)])

    after = {path: statements(lambda p=path: browser.get(p)) for path in paths}
    assert after == before
    assert max(before.values()) <= 26, sorted(before.items(), key=lambda each: -each[1])[:5]


def test_lists_are_gone_through_without_a_gap(site: Site, shapes: Shapes) -> None:
    app = site.app
    for number in range(120):
        app.batch(shapes.check.using(delay="1h"), [number], name=f"b{number}")
        app.schedule(shapes.report, key=f"s{number:03}", cron="0 0 1 1 *")
        app.object(Basket, f"o{number:03}").put("apples").result()
        shapes.sync.using(delay="1h").start(athlete=number)
    shapes.mail.using(delay="1h").enqueue_many(
        [Letter(f"{number}@example.org", "x") for number in range(120)]
    )
    browser = site.browser("read")

    for path, start in (
        ("/batches", "/batches/2"),
        ("/schedules", "/schedules/one?key="),
        ("/objects", "/objects/one?kind="),
        ("/chains", "/chains/2"),
        ("/outboxes/one?name=email", "/outboxes/messages/"),
    ):
        seen: list[str] = []
        following = path
        while following:
            tags = Tags(browser.get(following).text)
            links = [a.get("href") or "" for tag, a in tags.found if tag == "a"]
            rows = [link for link in links if link.startswith(start)]
            seen += dict.fromkeys(rows)
            following = next((link for link in links if "before=" in link or "after=" in link), "")
        assert len(seen) == len(set(seen)) == 120, (path, len(seen))


# --- acting


def test_failed_jobs_are_redriven_by_their_error(site: Site, shapes: Shapes) -> None:
    task(site.app, "fails").enqueue("no way 17")
    task(site.app, "fails").enqueue("no way 18")
    task(site.app, "fails").enqueue("something else")
    work(site.app)
    browser = site.browser("operate")
    page = page_of(browser, "/failed")
    assert "3 failed jobs, of 2 kinds of error" in page
    assert "ValueError: no way #" in page

    browser.submit("/failed/redrive", task="fails", error="ValueError: no way #")

    assert "2 opened again" in said(browser)
    assert "1 failed job, of 1 kind of error" in page_of(browser, "/failed")
    [line] = audit(site.app)
    assert line[1:] == ("redrive", "failed jobs of fails ValueError: no way #", "", "2 of 2")


def test_one_whose_key_is_taken_stays_failed_and_the_others_go(site: Site) -> None:
    for number in (1, 2, 3):
        task(site.app, "fails").using(key=f"user:{number}").enqueue("no")
    work(site.app)
    task(site.app, "fails").using(key="user:2", delay="1h").enqueue("next")
    browser = site.browser("operate")

    browser.submit("/failed/redrive", task="fails")

    assert "2 opened again; 1 are not" in said(browser)
    assert len(site.app.jobs(phase="failed")) == 1
    assert [line[4] for line in audit(site.app)] == ["1 of 1", "1 of 1"]


def test_failed_jobs_are_purged_by_whoever_types_how_many(site: Site) -> None:
    for _ in range(3):
        task(site.app, "fails").enqueue("no")
    work(site.app)
    browser = site.browser("admin")

    assert "Type" in browser.submit("/failed/purge", task="fails").text
    wrong = browser.submit("/failed/purge", task="fails", sure="yes", typed="purge 2")
    assert "That is not" in wrong.text
    assert len(site.app.jobs(phase="failed")) == 3
    assert site.browser("operate").submit("/failed/purge", task="fails").status_code == 403

    browser.submit("/failed/purge", task="fails", sure="yes", typed="purge 3", why="old")

    assert site.app.jobs(phase="failed") == []
    assert audit(site.app)[0][1:] == ("purge", "failed jobs of fails", "old", "3 of 3")


def test_a_queue_is_purged_by_whoever_types_how_much(site: Site) -> None:
    task(site.app, "greet").using(delay="1h").enqueue_many([("a",), ("b",)])
    browser = site.browser("admin")

    assert "purge 2" in browser.submit("/queues/purge", queue="default").text
    browser.submit("/queues/purge", queue="default", sure="yes", typed="purge 3")
    assert site.app.status().tasks[0].waiting == 2
    browser.submit("/queues/purge", queue="default", sure="yes", typed="purge 2")

    assert site.app.jobs(phase="waiting") == []
    assert audit(site.app)[0][1:] == ("purge", "queue default", "", "done: 2")
    assert browser.submit("/queues/purge", queue="*", sure="yes").status_code == 400


def test_a_schedule_is_steered(site: Site, shapes: Shapes) -> None:
    shapes.plan()
    browser = site.browser("admin")

    def state() -> str:
        return str(site.app.get_schedule("hourly").state)

    browser.submit("/schedules/pause", key="hourly")
    assert state() == "paused"
    assert "paused" in page_of(browser, "/schedules/one?key=hourly")
    browser.submit("/schedules/resume", key="hourly")
    assert state() == "active"
    due = site.app.get_schedule("hourly").due or 0
    browser.submit("/schedules/postpone", key="hourly", length="2h")
    assert site.app.get_schedule("hourly").due == due + 7_200_000
    assert browser.submit("/schedules/postpone", key="hourly", length="soon").status_code == 400
    before = len(site.app.jobs(task="report"))
    browser.submit("/schedules/fire", key="hourly")
    assert "Fired: job" in said(browser)
    assert len(site.app.jobs(task="report")) == before + 1
    assert "Type" in browser.submit("/schedules/delete", key="hourly", sure="yes").text
    browser.submit("/schedules/delete", key="hourly", sure="yes", typed="delete hourly")
    assert browser.get("/schedules/one?key=hourly").status_code == 404
    assert [line[1] for line in audit(site.app)] == [
        *("pause", "resume", "postpone", "fire", "delete"),
    ]


def test_a_schedule_says_in_words_and_in_which_zone_it_fires(site: Site, shapes: Shapes) -> None:
    shapes.plan()
    at = site.app.now() + 90_000
    site.app.schedule(shapes.report, key="once", at=as_datetime(at), tz="Europe/London")
    browser = site.browser("operate")

    listed = text_of(browser.get("/schedules").text)

    for words in ("daily at 01:30 Europe/London", "every 1 min", "daily at 02:10 UTC", "once,"):
        assert words in listed, words
    assert "daily at 01:30" in text_of(browser.get("/schedules/one?key=london").text)
    fields = Tags(browser.get("/schedules/edit?key=once").text)
    [rule] = [a["value"] for tag, a in fields.found if a.get("id") == "e-rule"]
    assert datetime.fromisoformat(str(rule)) == as_datetime(at)
    form = {"key": "once", "kind": "at", "rule": str(rule), "tz": "Europe/Oslo", "missed": "once"}
    browser.submit("/schedules/edit", **form, overlap="skip")
    assert site.app.get_schedule("once").start == at
    form["rule"] = (as_datetime(at) + timedelta(minutes=1)).isoformat()
    browser.submit("/schedules/edit", **form, overlap="skip")
    assert site.app.get_schedule("once").start == at + 60_000


def test_an_edit_shows_what_it_would_mean_before_it_is_saved(site: Site, shapes: Shapes) -> None:
    shapes.plan()
    browser = site.browser("operate")
    fields = {"key": "london", "kind": "cron", "rule": "30 2 * * *", "tz": "Europe/London"}
    fields |= {"missed": "once", "overlap": "skip", "owner": "ada", "purpose": "the report"}

    shown = browser.submit("/schedules/edit", **fields, preview="yes")
    text = text_of(shown.text)
    assert "Not saved yet" in text
    assert "the clocks went" in text
    assert "02:30:00" in text
    assert site.app.get_schedule("london").rule == "30 1 * * *"

    wrong = browser.submit("/schedules/edit", **{**fields, "rule": "99 2 * * *"})
    assert wrong.status_code == 400
    assert "That cannot be" in wrong.text
    assert browser.submit("/schedules/edit", **{**fields, "kind": "x"}).status_code == 400
    assert site.app.get_schedule("london").rule == "30 1 * * *"

    assert browser.submit("/schedules/edit", **fields).status_code == 303
    found = site.app.get_schedule("london")
    assert (found.rule, found.owner, found.why) == ("30 2 * * *", "ada", "the report")
    [line] = audit(site.app)
    assert line[1].startswith("edit ")
    assert "cron=30 2 * * *" in line[1]


def test_a_batch_is_retried_and_its_rest_cancelled(site: Site, shapes: Shapes) -> None:
    found = shapes.seed()
    browser = site.browser("operate")
    page = page_of(browser, f"/batches/{found['batch']}")
    assert "It has ended, with 13 of 120 failed" in page

    browser.submit("/batches/retry", id=found["batch"])
    assert "13 opened again" in said(browser)
    asked = browser.submit("/batches/cancel", id=found["open_batch"])
    assert "40 that wait will not run" in asked.text
    assert site.app.get_batch(found["open_batch"]).cancelled == 0
    browser.submit("/batches/cancel", id=found["open_batch"], sure="yes", why="wrong folder")

    assert site.app.get_batch(found["open_batch"]).cancelled == 40
    assert [line[1:] for line in audit(site.app)] == [
        ("retry failed", f"batch {found['batch']}", "", "13 opened again"),
        ("cancel", f"batch {found['open_batch']}", "wrong folder", "done: 40"),
    ]


def test_a_chain_is_cancelled_resumed_and_its_page_retried(site: Site, shapes: Shapes) -> None:
    found = shapes.seed()
    [failed] = site.app.chains(state="failed")
    browser = site.browser("operate")
    assert "failed at page 3: 403" in page_of(browser, f"/chains/{failed.id}").replace(" :", ":")

    assert "Cancel chain" in browser.submit("/chains/cancel", id=found["chain"]).text
    browser.submit("/chains/cancel", id=found["chain"], sure="yes", why="no need")
    assert site.app.get_chain(found["chain"]).state == "cancelled"
    browser.submit("/chains/resume", id=found["chain"])
    assert site.app.get_chain(found["chain"]).state == "active"
    browser.submit("/chains/retry", id=failed.id)
    assert site.app.get_chain(failed.id).state == "active"
    browser.submit("/chains/retry", id=found["chain"])
    assert "No page of chain" in said(browser)
    assert [line[1:] for line in audit(site.app)] == [
        ("cancel", f"chain {found['chain']}", "no need", "cancelled"),
        ("resume", f"chain {found['chain']}", "", "active"),
        ("retry", f"chain {failed.id}", "", "active"),
    ]


def test_what_is_unsure_is_decided_once(site: Site, shapes: Shapes) -> None:
    shapes.seed()
    (first, one), (second, _) = site.app.deliveries.unsure()
    browser = site.browser("operate")
    assert "2 sends have an unknown outcome" in page_of(browser, "/deliveries")

    browser.submit("/deliveries/sent", job=first, channel=one.channel)
    browser.submit("/deliveries/sent", job=first, channel=one.channel)
    assert "only what is unsure has to be decided" in said(browser)
    assert "again?" in browser.submit("/deliveries/resend", job=second, channel="discord").text
    assert len(site.app.deliveries.unsure()) == 1
    browser.submit("/deliveries/give-up", job=second, channel="discord", sure="yes", why="gone")

    assert site.app.deliveries.unsure() == []
    states = {each.channel: each.state for each in site.app.deliveries.channels(second)}
    assert states == {"email": "sent", "discord": "failed"}
    assert [line[1] for line in audit(site.app)] == ["call sent", "give up"]


def test_all_that_is_unsure_is_decided_after_a_question(site: Site, shapes: Shapes) -> None:
    shapes.seed()
    browser = site.browser("operate")

    assert "2 channels that are unsure now" in browser.submit("/deliveries/resend").text
    assert len(site.app.deliveries.unsure()) == 2
    browser.submit("/deliveries/resend", sure="yes")

    assert site.app.deliveries.unsure() == []
    assert [line[1] for line in audit(site.app)] == ["resend", "resend"]


def test_a_message_is_decided_retried_and_cancelled(site: Site, shapes: Shapes) -> None:
    found = shapes.seed()
    desk, browser = site.app.outboxes, site.browser("operate")
    waiting = shapes.mail.using(delay="1h", key="later").enqueue(Letter("x@example.org", "x"))
    [failed] = desk.messages("email", state="failed")

    assert "again?" in browser.submit("/outboxes/retry", id=found["message"]).text
    browser.submit("/outboxes/sent", id=found["message"])
    assert desk.get_message(found["message"]).state == "sent"
    browser.submit("/outboxes/give-up", id=found["message"], sure="yes")
    assert "only what is unsure" in said(browser)
    assert "Cancel message later?" in browser.submit("/outboxes/cancel", id=waiting.id).text
    browser.submit("/outboxes/cancel", id=waiting.id, sure="yes")
    assert desk.get_message(waiting.id).state == "cancelled"
    browser.submit("/outboxes/retry", id=failed.id)
    assert desk.get_message(failed.id).state == "queued"
    work(site.app)
    browser.submit("/outboxes/retry", name="email")
    assert desk.get_message(failed.id).state == "queued"
    assert browser.submit("/outboxes/sent", id=5).status_code == 404
    assert [line[1:3] for line in audit(site.app)] == [
        ("call sent", f"message {found['message']}"),
        ("cancel", f"message {waiting.id}"),
        ("retry", f"message {failed.id}"),
        ("retry failed", "outbox email"),
    ]


def test_a_pace_is_blocked_stopped_and_forgets(site: Site, shapes: Shapes) -> None:
    shapes.seed()
    app, browser = site.app, site.browser("operate")
    assert "used up until" in page_of(browser, "/paces/one?name=strava")
    assert "95 in 15 min and 950 in 1 d" in page_of(browser, "/paces/one?name=strava")
    assert "Quota(" not in page_of(browser, "/paces")

    assert "Block pace strava for 15m?" in browser.submit("/paces/block", name="strava").text
    browser.submit("/paces/block", name="strava", length="2h", sure="yes")
    assert app.get_pace("strava").blocked_until is not None
    browser.submit("/paces/block", name="strava", length="0s")
    assert app.get_pace("strava").blocked_until is None
    browser.submit("/paces/reset", name="strava", sure="yes")
    assert app.get_pace("strava").used == 0
    browser.submit("/paces/stop", name="enrich:adaptive", sure="yes")
    assert app.get_pace("enrich:adaptive").stopped
    assert "stopped by hand" in page_of(browser, "/paces")
    browser.submit("/paces/start", name="enrich:adaptive")
    assert not app.get_pace("enrich:adaptive").stopped
    assert browser.submit("/paces/stop", name="strava", sure="yes").status_code == 400
    assert browser.submit("/paces/block", name="x", sure="yes").status_code == 404
    assert [line[1] for line in audit(app)] == [
        *("block for 2h", "unblock", "reset", "stop", "start"),
    ]


def test_an_object_is_rung_and_deleted(site: Site, shapes: Shapes) -> None:
    shapes.seed()
    app, browser = site.app, site.browser("admin")
    page = page_of(browser, "/objects/one?kind=Basket&key=acme")
    assert "item 1 row" in page
    before = app.object(Basket, "acme").info().alarm or 0

    browser.submit("/objects/ring", kind="Basket", key="acme")
    assert (app.object(Basket, "acme").info().alarm or 0) < before
    work(app)
    browser.submit("/objects/ring", kind="Basket", key="acme")
    assert "has no alarm to ring" in said(browser)
    asked = browser.submit("/objects/delete", kind="Basket", key="acme")
    assert "delete acme" in asked.text
    browser.submit("/objects/delete", kind="Basket", key="acme", sure="yes", typed="acme")
    assert browser.get("/objects/one?kind=Basket&key=acme").status_code == 200
    browser.submit("/objects/delete", kind="Basket", key="acme", sure="yes", typed="delete acme")

    assert browser.get("/objects/one?kind=Basket&key=acme").status_code == 404
    assert [line[1] for line in audit(app)] == ["ring alarm", "delete"]


def test_the_audit_is_found_by_who_and_what(site: Site) -> None:
    first, second = site.browser("operate"), site.browser("operate")
    first.submit("/queues/pause", queue="mail", why="provider migration")
    second.submit("/queues/resume", queue="mail")
    reader = site.browser("read")

    page = page_of(reader, "/audit")
    assert "2 actions on this page by 2 tokens" in page
    assert "provider migration" in page
    assert "resumed" not in page_of(reader, "/audit?what=pause")
    assert "provider migration" not in page_of(reader, "/audit?who=operate-1")
    assert "No action matches" in page_of(reader, "/audit?who=nobody")


def test_a_program_acts_on_shapes_with_its_token(site: Site, shapes: Shapes) -> None:
    shapes.plan()
    token = {"authorization": f"Bearer {site.token('operate')}"}
    browser = site.browser()

    answer = browser.post("/schedules/pause", data={"key": "hourly"}, headers=token)
    assert answer.json() == {"target": "schedule hourly", "outcome": "paused"}
    missing = browser.post("/schedules/pause", data={"key": "x"}, headers=token)
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "not_found"


# --- who sees payloads


def test_a_reader_sees_no_payload_if_the_app_says_so(emptied: str) -> None:
    app = App(emptied, payloads="operate")
    shapes = Shapes(app)
    site = Site(app)
    found = shapes.seed()
    body = "Zanzibar"
    shapes.mail.using(key="m", delay="1h").enqueue(Letter("x@example.org", body))
    app.schedule(shapes.fetch, args=(4711,), key="with-arguments", cron="0 * * * *")
    [message] = app.outboxes.messages("email", state="queued", limit=1)
    job = shapes.lookup.using(delay="1h").enqueue(4711)
    done = app.jobs(phase="done", task="check")[0]
    paths = {
        f"/jobs/{job.id}": "4711",
        f"/jobs/{done.id}": '"ok"',
        "/jobs?phase=done&task=check": '"ok"',
        f"/outboxes/messages/{message.id}": body,
        "/schedules/one?key=with-arguments": "4711",
        f"/chains/{found['chain']}": '"athlete"',
        f"/deliveries/{found['delivery']}": '"lost"',
    }
    reader, operator = site.browser("read"), site.browser("operate")

    for path, words in paths.items():
        assert words not in page_of(reader, path), path
        assert words in page_of(operator, path), path
    app.close()


def test_who_sees_payloads_is_a_scope() -> None:
    from duework import UsageError

    with pytest.raises(UsageError, match="payloads="):
        App("sqlite:///x.db", payloads="nobody")
