"""The pages inside a program of the user's: mounted in FastAPI, below a path of their own."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

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
