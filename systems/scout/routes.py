"""Routes for programs: stages, the controller and its buttons, what was found, exports, a check of all."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from duework import Reply, Transaction, UsageError
from systems.scout import first, reading, trial
from systems.scout.desk import apps, changes, exports, groups, reports, stars, steering, words
from systems.scout.desk.shown import report_body
from systems.scout.part import part

Words = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]


class Wanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which opportunities are listed."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    newest: bool = False
    starred: bool = False


class WantedApps(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which apps are listed, and from where on."""

    q: Words = ""
    genre: Words = ""
    order: Literal["ratings", "newest"] = "ratings"
    after: Words = ""


class WantedWords(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which keywords are listed, and from where on."""

    q: Words = ""
    state: Words = ""
    after: Words = ""


class After(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where a list goes on."""

    after: Words = ""


class Before(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The time of the last line of the page before."""

    before: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 2**62


class Keywords(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Keywords to search for, and whether they are followed from now on."""

    keywords: Annotated[list[Words], msgspec.Meta(min_length=1, max_length=200)]
    track: bool = False


class Small(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many apps a trial takes."""

    apps: Annotated[int, msgspec.Meta(ge=3, le=200)] = trial.TEN


class Shared(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """For how many days a report opens."""

    days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 30


class Listed(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The list that a star is in."""

    list: Words = ""


# --- stages


@part.route("/v1/health", auth="public")
def health() -> dict[str, str]:
    return reading.health()


@part.route("/v1/crawl/status")
def crawl_status() -> dict[str, Any]:
    return reading.crawl_status()


@part.route("/v1/enrichment/status")
def enrichment_status() -> dict[str, Any]:
    return reading.controller()


@part.route("/v1/enrichment/start", methods=["POST"])
def start_enrichment() -> dict[str, bool]:
    steering.resume("controller")
    return {"ok": True, "running": True}


@part.route("/v1/enrichment/stop", methods=["POST"])
def stop_enrichment() -> dict[str, bool]:
    steering.pause("controller")
    return {"ok": True, "running": False}


@part.route("/v1/enrichment/reset", methods=["POST"])
def reset_enrichment() -> dict[str, bool]:
    steering.reset("controller")
    return {"ok": True, "running": True}


@part.route("/v1/first", methods=["POST"])
def start_first() -> Reply:
    chain = first.start()
    return Reply(202, {"chain": str(chain.id), "existed": chain.existed})


@part.route("/v1/trial", methods=["POST"])
def start_trial(body: Small) -> Reply:
    chain = trial.start(body.apps)
    return Reply(202, {"chain": str(chain.id), "existed": chain.existed})


@part.route("/v1/pipeline-test")
def pipeline_test() -> dict[str, Any]:
    return reading.pipeline_test()


@part.route("/v1/steer/{piece}/{verb}", methods=["POST"])
def steer(
    piece: Literal["crawler", "controller", "agents"], verb: Literal["pause", "resume", "reset"]
) -> dict[str, Any]:
    getattr(steering, verb)(piece)
    return {"ok": True, "paused": steering.paused(piece)}


# --- what was found


@part.route("/v1/apps")
def list_apps(query: WantedApps) -> dict[str, Any]:
    found = apps.browse(query.q, query.genre, query.order, query.after)
    rows = [row._asdict() for row in found.rows]
    return {"apps": rows, "next": found.more, "looked_at": found.looked}


@part.route("/v1/apps/{track_id}")
def show_app(track_id: int) -> dict[str, Any]:
    given = apps.one_app(track_id)
    return {
        "app": given["app"]._asdict(),
        "scores": [
            {"agent": agent, "score": score, "inputs": inputs, "at": at}
            for agent, score, inputs, at in given["ledger"]
        ],
        **{
            name: [row._asdict() for row in given[name]]
            for name in ("charts", "rankings", "clusters")
        },
    }


@part.route("/v1/keywords")
def list_keywords(query: WantedWords) -> dict[str, Any]:
    rows, more = words.listed(query.q, query.state, query.after)
    return {"keywords": [row._asdict() for row in rows], "next": more}


@part.route("/v1/keywords", methods=["POST"])
def plant_keywords(body: Keywords, tx: Transaction) -> Reply:
    planted = words.plant(tx, "\n".join(body.keywords), part.app.now())
    for each in planted if body.track else ():
        words.follow(tx, each, part.app.now())
    return Reply(202, {"keywords": planted, "tracked": body.track})


@part.route("/v1/tracked")
def list_tracked() -> list[dict[str, Any]]:
    return [row._asdict() for row in words.followed()]


@part.route("/v1/tracked/{keyword}", methods=["DELETE"])
def untrack(keyword: str, tx: Transaction) -> None:
    words.unfollow(tx, keyword)


@part.route("/v1/clusters")
def list_clusters(query: After) -> dict[str, Any]:
    rows, more = groups.listed(query.after)
    return {"clusters": [row._asdict() for row in rows], "next": more}


@part.route("/v1/clusters/{cluster}")
def show_cluster(cluster: str) -> dict[str, Any]:
    given = groups.one(cluster)
    return {
        "cluster": given["it"]._asdict(),
        "inputs": given["inputs"],
        "apps": [row._asdict() for row in given["apps"]],
        "keywords": [row._asdict() for row in given["words"]],
    }


@part.route("/v1/opportunities")
def list_opportunities(query: Wanted) -> list[dict[str, Any]]:
    return reading.opportunities(query.limit, newest=query.newest, starred=query.starred)


@part.route("/v1/opportunities/{cluster}")
def show_opportunity(cluster: str) -> dict[str, Any]:
    return reading.opportunity(cluster)


@part.route("/v1/opportunities/{cluster}/brief.md")
def show_brief(cluster: str) -> Reply:
    text = exports.brief(cluster)
    return Reply(200, text.encode(), {"content-type": "text/markdown; charset=utf-8"})


@part.route("/v1/opportunities/{cluster}/report", methods=["POST"])
def share(cluster: str, body: Shared, tx: Transaction) -> Reply:
    token = reports.make(tx, report_body(cluster), part.app.now(), body.days)
    return Reply(201, {"path": f"/scout/r/{token}", "days": body.days})


@part.route("/v1/changes")
def list_changes(query: Before) -> list[dict[str, Any]]:
    return [row._asdict() for row in changes.listed(query.before)]


@part.route("/v1/stars")
def list_stars() -> list[dict[str, Any]]:
    return stars.listed()


@part.route("/v1/stars/{kind}/{ref}", methods=["PUT"])
def put_star(kind: stars.Kind, ref: str, body: Listed, tx: Transaction) -> dict[str, str]:
    name = stars.star(tx, kind, ref, part.app.now(), body.list)
    return {"kind": kind, "ref": ref, "name": name, "list": body.list}


@part.route("/v1/stars/{kind}/{ref}", methods=["DELETE"])
def take_star(kind: stars.Kind, ref: str, tx: Transaction) -> None:
    stars.unstar(tx, kind, ref)


@part.route("/v1/export/{name}")
def export(name: str, query: After) -> Reply:
    what, _, form = name.partition(".")
    return exports.reply(what, form, query.after)


# --- what failed


@part.route("/v1/failed")
def list_failed() -> list[dict[str, Any]]:
    return [
        {
            "job": str(job.id),
            "task": job.task,
            "error": job.error,
            "failures": job.failures,
            "at": job.settled,
            "event": steering.event_of(job),
        }
        for job in steering.failed()
    ]


@part.route("/v1/failed/requeue", methods=["POST"])
def requeue_all() -> dict[str, int]:
    return {"requeued": steering.all_again()}


@part.route("/v1/failed/{job}/requeue", methods=["POST"])
def requeue(job: int) -> dict[str, bool]:
    if not 0 < job < 2**63:
        raise UsageError("a job is a number: see /v1/failed")
    steering.again(job)
    return {"ok": True}
