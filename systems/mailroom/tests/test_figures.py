"""The article's figures are measured by the benchmark, which runs."""

from __future__ import annotations

import pytest

from bench.articles.figure import percentile, table
from bench.articles.mail import queries


@pytest.mark.rows("002-05")
def test_many_small_queries_inside_an_object_are_far_from_a_network() -> None:
    [figure] = queries(quick=True)

    assert float(figure.ours.removesuffix(" ms")) < 505
    assert "| 002 |" in table([figure])
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
