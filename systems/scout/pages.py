"""Pages: the five stages with ranked opportunities, apps, keywords, clusters, changes, and the machine."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from duework import Reply, Template
from systems.scout import reading
from systems.scout.desk import (
    apps,
    changes,
    charts,
    doctor,
    exports,
    groups,
    pains,
    reports,
    spent,
    stars,
    steering,
    words,
)
from systems.scout.desk.shown import PARTS, evidence, page
from systems.scout.part import part

Words = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]
NEWEST = 5


class Sorted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How opportunities are sorted."""

    newest: bool = False
    starred: bool = False


class Chosen(msgspec.Struct, kw_only=True):
    """Which apps or keywords, and from where on."""

    q: Words = ""
    genre: Words = ""
    order: Literal["ratings", "newest"] = "ratings"
    state: Literal["", "pending", "searching", "searched", "failing", "failed", "tracked"] = ""
    after: Words = ""


class OneWord(msgspec.Struct, kw_only=True):
    word: Words


class Before(msgspec.Struct, kw_only=True):
    """The time of the last line of the page before."""

    before: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 2**62


# --- opportunities and clusters


@part.page("/", title="Scout", icon="scout", live=("jobs", "chains"))
def front(query: Sorted) -> Template:
    now = part.app.now()
    running = part.app.chains(task="scout.pipeline", state="active", limit=1)
    return page(
        "scout.html",
        "opportunities",
        stages=reading.stages(now),
        found=reading.opportunities(newest=query.newest, starred=query.starred),
        newest=query.newest,
        only_starred=query.starred,
        starred=stars.starred("opportunity"),
        moved=changes.since_yesterday(now),
        changed=changes.listed(most=NEWEST),
        **spent.week(now),
        stopped=[piece for piece in steering.PIECES if steering.paused(piece)],
        pace=reading.controller(),
        busy=running[0] if running else None,
        parts=PARTS,
    )


@part.page("/opportunities/{cluster}", live=("chains",))
def opportunity(cluster: str) -> Template:
    return page(
        "opportunity.html",
        "opportunities",
        starred=cluster in stars.starred("opportunity"),
        **evidence(cluster),
    )


@part.page("/opportunities/{cluster}/brief", nav=False)
def brief(cluster: str) -> Reply:
    headers = {
        "content-type": "text/markdown; charset=utf-8",
        "content-disposition": 'attachment; filename="brief.md"',
    }
    return Reply(200, exports.brief(cluster).encode(), headers)


@part.page("/export/{name}", nav=False)
def export(name: str) -> Reply:
    what, _, form = name.partition(".")
    return exports.reply(what, form)


@part.page("/clusters", title="Clusters", nav=False)
def all_clusters(query: Chosen) -> Template:
    rows, more = groups.listed(query.after)
    return page("clusters.html", "clusters", rows=rows, more=more, paged=query.after, parts=PARTS)


@part.page("/clusters/{cluster}")
def one_cluster(cluster: str) -> Template:
    found = pains.of_cluster(cluster)
    history = groups.history(cluster)
    return page(
        "cluster.html",
        "clusters",
        **groups.one(cluster),
        drawn=charts.lines(history, "Its scores over time"),
        legend=charts.legend(history),
        pains=found,
        quoted=pains.quoted,
        parts=PARTS,
    )


# --- apps and keywords


@part.page("/apps", title="Apps", nav=False)
def all_apps(query: Chosen) -> Template:
    found = apps.browse(query.q, query.genre, query.order, query.after)
    return page(
        "apps.html",
        "apps",
        found=found,
        query=query,
        genres=apps.genres(),
        starred=stars.starred("app"),
        most=apps.LOOKED,
    )


@part.page("/apps/{track_id}")
def one_app(track_id: int) -> Template:
    now = part.app.now()
    given = apps.one_app(track_id)
    return page(
        "app.html",
        "apps",
        **given,
        **_app_history(track_id, now),
        chart_name=apps.chart_name,
        reviews=apps.reviews(track_id),
        versions=apps.versions(track_id),
        pains=pains.of_app(track_id, given["app"].track_name),
        quoted=pains.quoted,
        starred=str(track_id) in stars.starred("app"),
    )


def _app_history(track_id: int, now: int) -> dict[str, Any]:
    """Charts of how it was ranked and rated, where there is more than one time to show."""
    places, ranks = apps.chart_history(track_id, now), apps.rank_history(track_id, now)
    rated = apps.ratings_history(track_id, now)
    return {
        "drawn": [
            (name, charts.lines(series, label, ranks=inverse), charts.legend(series))
            for name, label, series, inverse in (
                ("Places in charts", "Its places in charts over time", places, True),
                ("Places for followed keywords", "Its places for keywords over time", ranks, True),
                ("Ratings", "The number of its ratings over time", rated, False),
            )
            if series
        ]
    }


@part.page("/keywords", title="Keywords", nav=False)
def all_keywords(query: Chosen) -> Template:
    followed = words.followed() if query.state == "tracked" else None
    state = "" if followed is not None else query.state
    rows, more = words.listed(query.q, state, query.after)
    return page(
        "keywords.html",
        "keywords",
        rows=rows,
        more=more,
        query=query,
        states=words.STATES,
        followed=followed,
    )


@part.page("/keywords/one", nav=False)
def one_keyword(query: OneWord) -> Template:
    now = part.app.now()
    given = words.one(query.word)
    history = words.history(query.word, now)
    names = reading.names_of(list(history))
    series = {names.get(id_, str(id_)): points for id_, points in history.items()}
    return page(
        "keyword.html",
        "keywords",
        **given,
        drawn=charts.lines(series, f"Who is found for {query.word}, over time", ranks=True),
        legend=charts.legend(series),
    )


# --- what people say, and what changed


@part.page("/complaints", title="Complaints", nav=False)
def complaints() -> Template:
    return page("complaints.html", "complaints", found=pains.everywhere(), quoted=pains.quoted)


@part.page("/changes", title="What changed", nav=False)
def what_changed(query: Before) -> Template:
    rows = changes.listed(query.before)
    more = rows[-1].at if len(rows) == changes.PAGE else None
    return page("changes.html", "changes", rows=rows, more=more, paged=query.before < 2**62)


@part.page("/saved", title="Saved", nav=False)
def saved() -> Template:
    now = part.app.now()
    return page(
        "saved.html",
        "saved",
        stars=stars.listed(),
        reports=reports.listed(now),
        followed=words.followed(),
    )


@part.page("/r/{token}", auth="public", nav=False)
def report(token: str) -> Template:
    """What a link shows to whoever has it: without a script, and without a cookie."""
    return Template(
        "report.html", **reports.shown(token, part.app.now()), parts=PARTS, bar=charts.bar
    )


# --- the machine


@part.page("/crawl", title="Crawl", nav=False, live=("jobs",))
def crawl() -> Template:
    return page(
        "crawl.html",
        "crawl",
        status=reading.crawl_status(),
        charts=reading.scans(),
        stopped=steering.paused("crawler"),
        apple=part.app.get_pace("apple"),
    )


@part.page("/controller", title="Controller", nav=False, live=("jobs",))
def controller() -> Template:
    return page(
        "controller.html",
        "controller",
        pace=reading.controller(),
        until=part.app.get_pace("enrich").details["cooldown_until"],
        drawn=charts.controller(part.app.get_pace("enrich").history, part.app.now()),
    )


@part.page("/failed", title="Failed", nav=False, live=("jobs",))
def failed() -> Template:
    rows = [(job, steering.event_of(job)) for job in steering.failed()]
    return page("failed.html", "failed", rows=rows)


@part.page("/doctor", title="Doctor", nav=False)
def look() -> Template:
    found = doctor.doctor(part.app.now())
    worst_first = sorted(found, key=lambda each: doctor.ORDER.index(each.fitness))
    return page("doctor.html", "doctor", checks=worst_first)
