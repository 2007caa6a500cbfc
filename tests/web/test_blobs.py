"""The page of blobs."""

from __future__ import annotations

from pathlib import Path

from tests.web.conftest import Site, check_page


def test_blobs_are_listed_by_key_and_by_what_keys_begin_with(site: Site, tmp_path: Path) -> None:
    site.app.wiring.bound.blobs = str(tmp_path / "contents")
    browser = site.browser("read")
    assert "No blobs" in browser.get("/blobs").text
    for number in range(60):
        site.app.blobs.put(f"app/{number:02}", b"x", ttl="1d")
    site.app.blobs.put("<b>", b"x")

    answer = browser.get("/blobs?prefix=app/")
    first = answer.text

    check_page(answer)
    assert "app/49" in first
    assert "app/50" not in first
    assert "app/59" in browser.get("/blobs?prefix=app/&after=app/49").text
    assert "&lt;b&gt;" in browser.get("/blobs").text
