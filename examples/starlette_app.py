"""A web program that enqueues in its requests and works in its own process.

FastAPI takes `lifespan=work.lifespan` in the same way.
"""

import tempfile
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from duework import App, NotFound

folder = tempfile.TemporaryDirectory()
work = App(f"sqlite:///{Path(folder.name) / 'web.db'}")


@work.task(retries=3)
async def thumbnail(name: str) -> str:
    return f"{name}.thumb.png"


async def upload(request: Request) -> JSONResponse:
    job = await thumbnail.aenqueue(request.path_params["name"])
    return JSONResponse({"job": str(job.id)}, status_code=202)


def status(request: Request) -> JSONResponse:
    try:
        job = work.job(request.path_params["job"])
    except NotFound as error:
        return JSONResponse({"error": error.code}, status_code=404)
    result = job.result if job.state == "done" else None
    return JSONResponse({"phase": job.phase, "result": result})


web = Starlette(
    routes=[
        Route("/upload/{name}", upload, methods=["POST"]),
        Route("/jobs/{job:int}", status),
    ],
    lifespan=work.lifespan,
)


def main() -> None:
    with TestClient(web) as client:
        job = client.post("/upload/cat").json()["job"]
        work.job(int(job)).wait("10s")
        print(client.get(f"/jobs/{job}").json())
        print(client.get("/jobs/1").status_code)


if __name__ == "__main__":
    main()
    work.close()
    folder.cleanup()
