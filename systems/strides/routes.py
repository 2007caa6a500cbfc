"""Routes for programs: progress and steering of syncs, races and athletes as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from duework import NotFound, Problem, Reply, SharedSecret
from systems.strides import reading, sync
from systems.strides.files import store
from systems.strides.part import part

INSIDE = SharedSecret(setting="internal_secret", header="X-Internal-Secret")


class StartSync(msgspec.Struct):
    full_sync: bool = False


class ProcessBatch(msgspec.Struct, rename="camel"):
    athlete_id: int
    session_id: str
    batch_number: int


def in_the_articles_words(problem: Problem) -> Reply | None:
    if problem.status == 401:  # noqa: PLR2004 - a status
        return Reply(401, {"error": "Unauthorized"})
    if problem.status == 404:  # noqa: PLR2004 - a status
        return Reply(404, {"error": problem.detail})
    return None


@part.route("/api/admin/sync/{session}/progress")
def show_progress(session: str) -> dict[str, Any]:
    return reading.progress(session)


@part.route("/api/admin/sync/{session}/logs")
def show_log(session: str) -> list[dict[str, Any]]:
    sync.chain_of(session)
    return reading.log(session)


@part.route("/api/admin/athletes/{athlete}/sync", methods=["POST"])
def start_sync(athlete: int, body: StartSync) -> Reply:
    return Reply(202, sync.start(athlete, full=body.full_sync))


@part.route("/api/admin/sync/{session}/cancel", methods=["POST"])
def cancel_sync(session: str) -> dict[str, str]:
    return {"state": sync.cancel(session)}


@part.route("/api/admin/sync/{session}/resume", methods=["POST"])
def resume_sync(session: str) -> dict[str, str]:
    return {"state": sync.resume(session).state}


@part.route("/api/admin/sync/{session}/retry", methods=["POST"])
def retry_sync(session: str) -> dict[str, str]:
    return {"state": sync.retry(session).state}


@part.route("/internal/process-batch", methods=["POST"], auth=INSIDE, problem=in_the_articles_words)
def process_batch(body: ProcessBatch) -> Reply:
    """Whether that page is there to be done; a worker takes it without being told."""
    missing = NotFound(f"Batch {body.batch_number} not found or not pending")
    try:
        chain = sync.chain_of(body.session_id)
    except NotFound:
        raise missing from None
    pages = chain.pages(after=body.batch_number - 1, limit=1)
    fits = chain.arguments["athlete"] == body.athlete_id and body.batch_number > 0
    if not fits or not pages or reading.status_of(pages[0].phase) != "pending":
        raise missing
    return Reply(202, {"batchNumber": body.batch_number, "status": "pending"})


@part.route("/api/races")
def list_races(query: reading.Wanted) -> list[dict[str, Any]]:
    hide = {"seen", "polyline", "firstname", "lastname"}
    return [
        {
            **{name: value for name, value in row._asdict().items() if name not in hide},
            "athlete": f"{row.firstname} {row.lastname}",
        }
        for row in reading.races(query)
    ]


@part.route("/api/athletes")
def list_athletes() -> list[dict[str, Any]]:
    shown = ("id", "firstname", "lastname", "connected", "reason", "sync_status", "sync_error")
    more = ("sync_session_id", "last_synced_at", "races")
    return [{name: getattr(row, name) for name in (*shown, *more)} for row in reading.athletes()]


class NewAthlete(msgspec.Struct):
    firstname: str
    lastname: str = ""


@part.route("/api/athletes", methods=["POST"])
def add_athlete(body: NewAthlete) -> Reply:
    """Somebody without an account at Strava, who has files."""
    number = store.add_athlete(body.firstname, body.lastname)
    return Reply(201, {"id": number}, {"location": f"/strides/athletes/{number}"})


@part.route("/api/athletes/{athlete}/files", methods=["POST"], max_body=50_000_000)
def take_file(athlete: int, body: bytes, request: Request) -> store.Taken:
    """FIT, TCX, GPX, packed or not, or an archive of them, as it is; `?zone=`, `race=true`, `name=`."""
    asked = request.query_params
    return store.take(
        athlete,
        asked.get("name", ""),
        body,
        zone=asked.get("zone", ""),
        race=asked.get("race") == "true",
    )
