"""The pages inside a program of the user's: mounted in FastAPI, below a path of their own."""

from __future__ import annotations

import sqlite3

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from duework import App
from duework.web.asgi import make
from duework.web.limits.settings import WebSettings
from tests.web.conftest import HERE, Browser, Site


@pytest.mark.parametrize(("path", "prefix"), [("/ops", ""), ("", "/ops")])
def test_the_pages_are_mounted_in_fastapi(site: Site, path: str, prefix: str) -> None:
    shop = FastAPI()
    shop.get("/price")(lambda: {"price": 7})
    shop.mount(path, site.app.asgi(prefix))

    with TestClient(shop, base_url=HERE, follow_redirects=False) as browser:
        assert browser.get("/price").json() == {"price": 7}
        assert browser.get("/ops/jobs").headers["location"].startswith("/ops/login")
        token = {"authorization": f"Bearer {site.token('read')}"}
        page = browser.get("/ops/jobs", headers=token)
        assert page.status_code == 200
        assert 'href="/ops/jobs' in page.text
        assert 'href="/jobs' not in page.text
        assert browser.get("/ops/health").status_code == 200


def test_a_browser_signs_in_and_acts_below_the_path(site: Site) -> None:
    shop = FastAPI()
    shop.mount("/ops", site.app.asgi())
    browser = Browser(shop, base_url=HERE, follow_redirects=False)

    answer = browser.post(
        "/ops/login", data={"token": site.token("operate")}, headers={"origin": HERE}
    )

    assert (answer.status_code, answer.headers["location"]) == (303, "/ops/")
    assert browser.get("/ops/").status_code == 200


@pytest.mark.parametrize("kind", ["sqlite"])
def test_beside_a_library_that_has_the_file_open_what_machines_ask_is_no_page(url: str) -> None:
    own = sqlite3.connect(url.removeprefix("sqlite:///"))
    own.execute("create table shop (id integer primary key)")
    app = App(url)
    shop = FastAPI()
    shop.mount("/ops", app.asgi())

    with TestClient(shop, base_url=HERE, follow_redirects=False) as monitor:
        health = monitor.get("/ops/health")
        told = monitor.get("/ops/health", headers={"authorization": "Bearer dw_x"})
        metrics = monitor.get("/ops/metrics")

    own.close()
    app.close()
    assert (health.status_code, health.json()) == (503, {"status": "unavailable"})
    assert "another SQLite library" in told.json()["error"]["message"]
    assert (metrics.status_code, metrics.json()["error"]["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("prefix", ["", "/ops"])
def test_machines_that_ask_too_often_get_no_page_and_people_get_one_with_links(
    site: Site, prefix: str
) -> None:
    inner = make(site.app, prefix, settings=WebSettings(requests=1))
    somebody = TestClient(inner, base_url=HERE, follow_redirects=False)
    assert somebody.get(f"{prefix}/login").status_code == 200

    for path in ("/health", "/metrics"):
        refused = somebody.get(prefix + path)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "too_many_requests"
        assert "retry-after" in refused.headers
    page = somebody.get(f"{prefix}/jobs")
    assert page.status_code == 429
    assert f'href="{prefix}/static/ui.' in page.text
