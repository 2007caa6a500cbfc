"""`duework chains`: list, show, cancel, resume, retry, for people and for scripts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from duework import App, Chain, End, Next, Page
from tests.cli.conftest import HOSTILE, Duework, work


@pytest.fixture
def start(shop: App) -> Callable[..., Chain]:
    """Start a chain of three pages, of which one may fail."""

    @shop.chain(key="user:{user}", retries=0)
    async def pull(page: Page, user: int, fail: int = 0, why: str = "no") -> Next | End:
        if page.number == fail:
            raise ConnectionError(why)
        page.expect(30)
        counts = {"items": 10}
        return End(counts) if page.number == 3 else Next(page.number, counts, quota={"15m": 40})

    return pull.start


def test_chains_are_listed_for_people_and_for_scripts(
    shop: App, duework: Duework, start: Callable[..., Chain]
) -> None:
    empty = duework("chains", "list")
    done, failed = start(1), start(2, fail=3)
    work(shop)

    text = duework("chains", "list")
    lines = duework("chains", "list", "--json").lines
    only = duework("chains", "list", "--state", "failed", "--key", "user:2", "--json").lines

    assert empty.out == "no chains\n"
    assert [line["id"] for line in lines] == [str(failed.id), str(done.id)]
    assert [line["id"] for line in only] == [str(failed.id)]
    assert (lines[0]["percent"], lines[0]["counts"]) == (66.6, {"items": 20})
    assert all(len(line) <= 80 for line in text.out.splitlines())
    assert "100 %" in text.out


def test_a_chain_is_shown_with_its_pages(
    shop: App, duework: Duework, start: Callable[..., Chain]
) -> None:
    chain = start(2, fail=2, why=HOSTILE)
    work(shop)

    text = duework("chains", "show", chain.id)
    document = duework("chains", "show", chain.id, "--json").document

    assert [page["phase"] for page in document["pages"]] == ["done", "failed"]
    assert document["pages"][0]["quota"] == {"15m": 40}
    assert document["cursor"] == 1
    assert "items 10" in text.out
    assert "\x1b" not in text.out
    more = duework("chains", "show", chain.id, "--limit", 1)
    assert "more: --after 1" in more.out
    assert duework("chains", "show", 1).code == 1


def test_chains_are_cancelled_resumed_and_retried(
    shop: App, duework: Duework, start: Callable[..., Chain]
) -> None:
    waiting, failed = start(1), start(2, fail=1)

    cancelled = duework("chains", "cancel", waiting.id, "--why", "enough", "--json")
    assert cancelled.lines == [{"id": str(waiting.id), "outcome": "cancelled"}]
    assert waiting.refresh().error == "enough"
    work(shop)
    assert duework("chains", "resume", waiting.id).out == f"{waiting.id} active\n"
    work(shop)
    assert waiting.refresh().state == "done"

    ran = duework("chains", "retry", waiting.id, failed.id, "--json")

    assert ran.code == 1
    assert ran.lines[0]["error"]["code"] == "conflict"
    assert ran.lines[1] == {"id": str(failed.id), "outcome": "active"}
