"""Two transactions at once on PostgreSQL, interleaved by hand."""

from __future__ import annotations

import psycopg
import pytest

from duework.kernel.claim import SOON_MS
from tests.support.kernel import Kernel


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_claim_that_another_one_beat_to_it_looks_again_soon(kernel: Kernel, emptied: str) -> None:
    kernel.enqueue(kernel.new())

    with psycopg.connect(emptied) as other:
        other.execute("select id from duework_job for update")
        claim = kernel.claim_as(kernel.want("greet"))

    assert claim.jobs == []
    assert claim.next_due == kernel.now + SOON_MS
