"""Routes for programs: the crawl, the controller and its buttons, opportunities, a check of all stages."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from duework import Reply
from systems.scout import first, reading
from systems.scout.part import part


class Wanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which opportunities are listed."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    newest: bool = False


@part.route("/v1/crawl/status")
def crawl_status() -> dict[str, Any]:
    return reading.crawl_status()


@part.route("/v1/enrichment/status")
def enrichment_status() -> dict[str, Any]:
    return reading.controller()


@part.route("/v1/enrichment/start", methods=["POST"])
def start_enrichment() -> dict[str, bool]:
    part.app.get_pace("enrich").start()
    return {"ok": True, "running": True}


@part.route("/v1/enrichment/stop", methods=["POST"])
def stop_enrichment() -> dict[str, bool]:
    part.app.get_pace("enrich").stop()
    return {"ok": True, "running": False}


@part.route("/v1/enrichment/reset", methods=["POST"])
def reset_enrichment() -> dict[str, bool]:
    part.app.get_pace("enrich").reset()
    return {"ok": True, "running": True}


@part.route("/v1/opportunities")
def list_opportunities(query: Wanted) -> list[dict[str, Any]]:
    return reading.opportunities(query.limit, newest=query.newest)


@part.route("/v1/opportunities/{cluster}")
def show_opportunity(cluster: str) -> dict[str, Any]:
    return reading.opportunity(cluster)


@part.route("/v1/first", methods=["POST"])
def start_first() -> Reply:
    chain = first.start()
    return Reply(202, {"chain": str(chain.id), "existed": chain.existed})


@part.route("/v1/pipeline-test")
def pipeline_test() -> dict[str, Any]:
    return reading.pipeline_test()
