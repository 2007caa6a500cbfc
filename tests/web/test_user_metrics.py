"""What users count, in the text that Prometheus reads."""

from __future__ import annotations

from tests.web.conftest import Site


def test_what_users_count_is_in_the_text_of_prometheus(site: Site) -> None:
    site.app.metrics.add("pages", 12, phase='a"b')
    site.app.metrics.add("pages", 3)
    site.app.metrics.time("fetch", 0.5)
    site.app.metrics.flush()

    text = site.browser("read").get("/metrics").text

    assert "# TYPE pages_total counter" in text
    assert 'pages_total{phase="a\\"b"} 12\n' in text
    assert "pages_total 3\n" in text
    assert "fetch_seconds_sum 0.5\nfetch_seconds_count 1\n" in text
