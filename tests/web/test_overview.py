"""The due line, the tiles and `/metrics`: numbers from counters, the same whoever asks, never from a scan."""

from __future__ import annotations

import os
import re
import socket
import threading
from typing import Any

import pytest

from duework.health.activity import BOUND, RANGES, Counted
from duework.kernel.minutes.counters import KEEP_MS, LAGS, MINUTE
from duework.kernel.pruning import prune_round
from duework.web.filters import NONE
from duework.web.overview import LINES
from tests.support.working import eventually, working
from tests.web.conftest import Site, Tags, check_page, task, work
from tests.web.test_pages import text_of

LINE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (-?[0-9.e+]+)")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> tuple[dict[str, str], Samples]:
    """The kinds of metrics, and every sample by its name and labels; each stands below its kind."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    samples: Samples = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in kinds
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == family
            kinds[name] = kind
        else:
            name, labels, number = LINE.fullmatch(line).groups()  # type: ignore[union-attr]
            assert name.startswith(family)
            assert not LABEL.sub("", labels or ""), "nothing but labels"
            found = LABEL.findall(labels or "")
            plain = {
                (key, re.sub(r"\\.", lambda m: UNESCAPED[m[0]], value)) for key, value in found
            }
            key = (name, frozenset(plain))
            assert key not in samples, "each once"
            samples[key] = float(number)
    return kinds, samples


def metrics(site: Site) -> tuple[dict[str, str], Samples]:
    token = {"authorization": f"Bearer {site.token('read')}"}
    answer = site.browser().get("/metrics", headers=token)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.text)


def sample(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"duework_{name}", frozenset(labels.items())]


def test_metrics_have_counters_of_all_time_and_gauges_of_this_moment(site: Site) -> None:
    for name in ("ada", "bob", "eve"):
        task(site.app, "greet").enqueue(name)
    task(site.app, "fails").enqueue("no")
    task(site.app, "retries").enqueue()
    work(site.app)
    task(site.app, "greet").enqueue("dan")
    greet, fails = {"queue": "default", "task": "greet"}, {"queue": "mail", "task": "fails"}
    again = {"queue": "default", "task": "retries"}

    kinds, found = metrics(site)

    assert sample(found, "started_total", **greet) == 3
    theirs = {"system": "duework", "destination_name": "default", "destination_template": "greet"}
    named = frozenset((f"messaging_{name}", value) for name, value in theirs.items())
    assert found["messaging_client_consumed_messages_total", named] == 3
    assert sample(found, "ended_total", **greet, outcome="done") == 3
    assert sample(found, "ended_total", **fails, outcome="failed") == 1
    assert sample(found, "ended_total", **again, outcome="retried") == 1
    assert sample(found, "jobs_ready", **greet) == 1
    assert sample(found, "jobs_waiting", **again) == 1
    assert sample(found, "jobs_running", **greet) == 0
    assert sample(found, "jobs_failed") == 1
    assert sample(found, "needs") == 1
    assert kinds["duework_started_total"] == kinds["duework_ended_total"] == "counter"
    assert kinds["duework_start_lag_seconds"] == "histogram"
    assert set(kinds.values()) == {"gauge", "counter", "histogram"}


def test_the_histogram_of_lags_adds_up(site: Site) -> None:
    for _ in range(4):
        task(site.app, "greet").enqueue("ada")
    task(site.app, "greet").using(at=1_700_000_000_000).enqueue("old")
    work(site.app)
    greet = {"queue": "default", "task": "greet"}

    _, found = metrics(site)

    limits = [*(f"{limit / 1000:g}" for limit in LAGS), "+Inf"]
    counts = [sample(found, "start_lag_seconds_bucket", **greet, le=limit) for limit in limits]
    assert counts == sorted(counts)
    assert counts[-1] == sample(found, "start_lag_seconds_count", **greet) == 5
    assert counts[-2] == 4, "the old one took longer than a minute"
    assert sample(found, "start_lag_seconds_sum", **greet) > 10**6


def test_counters_do_not_fall_when_minutes_are_forgotten(site: Site) -> None:
    task(site.app, "greet").enqueue("ada")
    work(site.app)
    before = sample(metrics(site)[1], "started_total", queue="default", task="greet")
    with site.app.transaction() as tx:
        tx.write("update duework_minute set start = start - :week where span > 0", week=2 * KEEP_MS)
    prune_round(site.app.wiring.engine, 10)
    assert site.app.read("select count(*) from duework_minute")[0][0] == 1

    assert sample(metrics(site)[1], "started_total", queue="default", task="greet") == before


def test_names_of_any_kind_stay_labels(site: Site) -> None:
    hostile = 'a"b\\c\nd} 7 {<'

    @site.app.task(name="odd", queue="odd")
    async def odd() -> None: ...

    odd.enqueue()
    with site.app.transaction() as tx:
        tx.write("update duework_lane set queue = :name where queue = 'odd'", name=hostile)

    _, found = metrics(site)

    assert sample(found, "jobs_ready", queue=hostile, task="odd") == 1


def tiles(page: str) -> str:
    found = re.search(r'<dl class="tiles" id="tiles">(.*?)</dl>', page, re.DOTALL)
    assert found
    return " ".join(" ".join(Tags(found[1]).texts).split())


def drawn(page: str) -> str:
    found = re.search(r'class="chart dueline"[^>]* aria-label="([^"]*)"', page)
    assert found
    return found[1]


def fill(site: Site, ago: int, done: int, span: int = 1) -> None:
    start = (site.app.now() - ago) // (span * MINUTE) * span * MINUTE
    numbers = [0, done, *[0] * 11]
    values = ", ".join(str(number) for number in (span, start))
    with site.app.transaction() as tx:
        tx.write(f"insert into duework_minute values ({values}, 'q', 't', {str(numbers)[1:-1]})")


def test_the_overview_draws_what_was_done_and_what_falls_due(site: Site) -> None:
    for name in ("ada", "bob"):
        task(site.app, "greet").enqueue(name)
    task(site.app, "fails").enqueue("no")
    work(site.app)
    task(site.app, "greet").using(delay="10m").enqueue("soon")
    task(site.app, "greet").using(delay="45m").enqueue("later")
    browser = site.browser("read")

    page = browser.get("/")
    check_page(page)
    assert drawn(page.text) == (
        "In the last 1 h 2 done and 1 failed; 0 late now; 1 due in the next 30 min."
    )
    assert "Done 2 in 1 h" in tiles(page.text)
    assert "Failed 1 1 in 1 h" in tiles(page.text)
    assert "Start after due under" in tiles(page.text)
    assert "2 due in the next 3 h" in drawn(browser.get("/?range=6h").text)


@pytest.mark.parametrize(
    ("over", "counted"), [("1h", 1), ("6h", 1 + 10), ("24h", 100), ("7d", 100 + 1000)]
)
def test_a_range_sums_its_own_time(site: Site, over: str, counted: int) -> None:
    hour = 60 * MINUTE
    fill(site, 30 * MINUTE, 1)
    fill(site, 5 * hour, 10)
    fill(site, 20 * hour, 100, span=15)
    fill(site, 150 * hour, 1000, span=15)

    page = site.browser("read").get(f"/?range={over}").text

    assert f" {counted:,} done " in drawn(page)
    current = [a for tag, a in Tags(page).found if tag == "a" and a.get("aria-current") == "true"]
    assert [a["href"] for a in current] == [f"/?range={over}"]


def test_a_range_that_there_is_not_is_refused(site: Site) -> None:
    answer = site.browser("read").get("/?range=1y")

    assert answer.status_code == 400
    assert all(each in answer.text for each in RANGES)


def test_of_very_many_jobs_that_fall_due_at_least_so_many_are_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duework.health.activity.BOUND", 50)
    task(site.app, "greet").using(delay="10m").enqueue_many([(f"n{i}",) for i in range(60)])

    page = site.browser("read").get("/").text

    assert "at least 50 due in the next 30 min" in drawn(page)
    assert BOUND > 50


@pytest.mark.parametrize(
    ("lags", "median", "slowest"),
    [
        ((0, 0, 0, 0, 0, 0), None, None),
        ((1, 0, 0, 0, 0, 0), 10, 10),
        ((98, 0, 2, 0, 0, 0), 10, 1000),
        ((10, 0, 0, 0, 0, 30), None, None),
        ((0, 50, 49, 0, 1, 0), 100, 1000),
    ],
)
def test_shares_of_lags_are_told_by_their_bucket(
    lags: tuple[int, ...], median: int | None, slowest: int | None
) -> None:
    counted: Any = Counted(lags=lags)

    assert (counted.within(0.5), counted.within(0.99)) == (median, slowest)


def test_bars_that_say_at_least_are_hatched_and_others_are_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = site.browser("read")
    task(site.app, "greet").using(delay="10m").enqueue_many([(f"n{i}",) for i in range(9)])
    assert "url(#about)" not in browser.get("/").text

    monkeypatch.setattr("duework.health.activity.BOUND", 5)
    page = browser.get("/")
    check_page(page)
    assert page.text.count("url(#about)") == 1
    assert page.text.count('<pattern id="about"') == 1


def test_the_due_line_shows_when_schedules_fire_next(site: Site) -> None:
    greet = task(site.app, "greet")
    now = site.app.now()
    site.app.schedule(greet, args=("ada",), key="soon <b>", at=now + 10 * MINUTE)
    site.app.schedule(greet, args=("bob",), key="later", at=now + 100 * MINUTE)
    browser = site.browser("read")

    page = browser.get("/")
    check_page(page)
    assert re.findall(r"<title>(soon [^,]*), [0-9:]+</title>", page.text) == ["soon &lt;b&gt;"]
    assert "soon &lt;b&gt; fires next, at " in drawn(page.text)
    assert "later, " in browser.get("/?range=6h").text
    assert len(site.app.admin.activity("6h").fires) == 2


def test_fires_are_named_up_to_a_bound(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duework.health.activity.FIRES", 3)
    for number in range(5):
        at = site.app.now() + number * MINUTE + 30_000
        site.app.schedule(task(site.app, "greet"), args=("ada",), key=f"n{number}", at=at)

    fires = site.app.admin.activity().fires
    assert [name for _, name in fires] == ["n0", "n1", "n2"]


@pytest.mark.parametrize("over", RANGES)
def test_each_line_has_its_own_past_in_twelfths(site: Site, over: str) -> None:
    for name in ("ada", "bob"):
        task(site.app, "greet").enqueue(name)
    task(site.app, "fails").enqueue("no")
    work(site.app)
    task(site.app, "greet").using(delay="1h").enqueue("later")
    task(site.app, "retries").using(delay="1h").enqueue()

    by_task = site.app.admin.activity(over).by_task  # type: ignore[arg-type]
    greet, fails = by_task["default", "greet"], by_task["mail", "fails"]
    assert [sum(column) for column in zip(*greet, strict=True)] == [2, 0]
    assert [sum(column) for column in zip(*fails, strict=True)] == [0, 1]
    assert {len(greet), len(fails)} == {12}
    assert greet[-1] == (2, 0), "the last one is this moment's"
    page = site.browser("read").get(f"/?range={over}").text
    lines = re.search(r'id="queues".*?</table>', page, re.DOTALL)
    assert lines
    assert lines[0].count("<tr") == 4
    assert lines[0].count('class="spark"') == 2, "what nothing was done with has none"


def test_what_is_ready_is_not_said_to_be_held_by_nothing(site: Site) -> None:
    task(site.app, "greet").enqueue("ada")
    browser = site.browser("read")

    for path in ("/", "/queues", "/queues/one?queue=default"):
        assert "ready, in turn" in text_of(browser.get(path).text), path
    work(site.app)
    for path in ("/", "/queues", "/queues/one?queue=default"):
        assert "ready, in turn" not in text_of(browser.get(path).text), path


def test_of_many_tasks_those_are_shown_that_have_something_to_do(site: Site) -> None:
    async def one() -> None: ...

    tasks = [site.app.task(name=f"task{number:02}")(one) for number in range(40)]
    for each in tasks:
        each.enqueue()
    work(site.app)
    tasks[-1].using(delay="1h").enqueue()

    page = site.browser("read").get("/").text

    lines = re.search(r'id="queues".*?</section>', page, re.DOTALL)
    assert lines
    assert lines[0].count("<tr") == 1 + LINES
    assert re.findall(r">(task\d\d)<", lines[0])[:2] == ["task39", "task00"]
    assert f"and {40 - LINES} tasks with less to do" in lines[0]
    assert len(page.encode()) < 60_000


def test_poison_has_a_way_to_its_jobs_and_its_crashes_are_counted_there(site: Site) -> None:
    job = task(site.app, "fails").enqueue("no")
    work(site.app)
    with site.app.transaction() as tx:
        tx.write("update duework_job set failures = 0, crashes = 3 where state = 'failed'")
    browser = site.browser("read")

    links = [a for tag, a in Tags(browser.get("/").text).found if tag == "a"]
    shown = [a["href"] for a in links if "btn" in (a.get("class") or "")]
    assert "/jobs?task=fails&phase=failed" in shown
    for path, words in {
        "/failed": "no 3 crashes · poison",
        "/jobs?phase=failed": "no 3 crashes",
        f"/jobs/{job.id}": "3 crashes alone",
    }.items():
        assert words in text_of(browser.get(path).text), path


def test_the_page_of_workers_says_what_they_run_and_what_memory_they_take(site: Site) -> None:
    ended = threading.Event()

    def compute() -> None:
        ended.wait(60)

    job = site.app.task(name="compute")(compute).enqueue()
    browser = site.browser("read")
    with working(site.app):
        eventually(lambda: site.app.jobs(phase="running"))
        shown = text_of(browser.get("/workers").text)
        with site.app.transaction() as tx:
            tx.write("update duework_worker set boot = 'another', host = 'elsewhere'")
        away = text_of(browser.get("/workers").text)
        ended.set()
        job.wait("20s")

    here = rf"{re.escape(socket.gethostname())}:{os.getpid()} running 1 job 1 running [0-9.]+ MB "
    assert "1 worker on 1 host runs 1 job." in shown
    assert re.search(here, shown), shown
    assert re.search(rf"runs 1 job .*compute {job.id} leased until", shown)
    assert re.search(rf"elsewhere:{os.getpid()} [a-z ]+ 1 job 1 running {NONE} ", away), away
