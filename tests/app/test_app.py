"""An App is a Part with a database: what it shows, what it declares, how things are looked up."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from duework import (
    App,
    DurableObject,
    End,
    NotFound,
    Outbox,
    Page,
    Part,
    Queue,
    Rate,
    Sent,
    UsageError,
)
from duework.averbs import Verb
from duework.testing import Harness

# All that completion shows; what is not for users is behind `wiring` and `contents`.
DECLARES = """
    action adopt around budget chain command commands delivery durable oauth on outbox page people queue
    resource route settings sign_in sweep task
"""
VERBS = """
    attempts batch batches block_pace budgets cancel chains get_batch get_budget get_chain get_message
    get_pace get_schedule get_workflow job jobs move needs objects paces pause paused publish purge
    purge_queue read reset_pace resume revive schedule schedules search_jobs signal status tagged take_pace
    unknown_tasks why workflows
"""
OTHERS = """
    admin all_objects app asgi blobs changes close connect contents deliveries events include lifespan
    limits metrics name named now object on_fact outboxes parts payloads running secrets sweeps
    transaction url wiring worker
"""


def shown(of: Any) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_completion_shows_what_users_need_and_one_door_to_the_inside(app: App) -> None:
    verbs = set(VERBS.split())

    assert shown(app) == {
        *DECLARES.split(),
        *OTHERS.split(),
        *verbs,
        *(f"a{each}" for each in verbs),
    }


def test_a_part_shows_what_it_declares(app: App) -> None:
    assert shown(Part("shop")) == {*DECLARES.split(), "app", "contents", "name"}
    assert shown(Part("shop")) <= shown(app)


def test_a_verb_has_its_signature_and_its_text(app: App) -> None:
    assert list(inspect.signature(app.get_batch).parameters) == ["identifier"]
    assert list(inspect.signature(app.aget_batch).parameters) == ["identifier"]
    assert "NotFound" in (app.get_batch.__doc__ or "")
    assert isinstance(App.get_batch, Verb)
    assert "NotFound" in (App.get_batch.__doc__ or "")


@pytest.mark.parametrize(
    ("lookup", "key"),
    [
        ("job", 1),
        ("get_batch", 1),
        ("get_chain", 1),
        ("get_message", 1),
        ("get_schedule", "none"),
        ("get_pace", "none"),
    ],
)
def test_a_lookup_of_what_is_not_there_is_not_found(app: App, lookup: str, key: Any) -> None:
    with pytest.raises(NotFound):
        getattr(app, lookup)(key)
    with pytest.raises(NotFound):
        asyncio.run(getattr(app, f"a{lookup}")(key))


def test_an_app_is_its_own(app: App) -> None:
    assert app.app is app
    assert isinstance(app, Part)
    assert app.name == ""


def test_an_app_declares_objects_under_their_own_names(app: App) -> None:
    @app.durable
    class Seat(DurableObject):
        def take(self) -> int:
            return 7

    assert app.object(Seat, "12A").take().result() == 7
    assert [each.kind for each in app.objects()] == []
    assert repr(app.object(Seat, "12A")) == "<object Seat 12A>"


@pytest.mark.parametrize("what", ["page", "action"])
def test_pages_and_actions_need_a_part_with_a_name(app: App, what: str) -> None:
    with pytest.raises(UsageError, match="part = Part"):
        getattr(app, what)("/")


def test_commands_and_people_need_a_part_with_a_name(app: App) -> None:
    with pytest.raises(UsageError, match="with a name"):
        app.command(lambda: None)
    with pytest.raises(UsageError, match="with a name"):
        app.sign_in(lambda email, url: None)


def test_what_a_part_declares_after_it_was_included_comes_to_life_at_once(app: App) -> None:
    part = Part("late")
    app.include(part)

    class Mail(Outbox[str]):
        async def submit(self, message: str, key: str) -> Sent:
            return Sent()

    @part.task
    def check(user: int) -> int:
        return user

    @part.chain()
    async def walk(page: Page) -> End:
        return End()

    @part.durable
    class Book(DurableObject):
        def read(self) -> int:
            return 1

    mail = part.outbox("mail", Mail())
    people = part.queue("people", concurrency=1)
    with Harness(app) as h:
        job = check.enqueue(7)
        chain, message = walk.start(), mail.enqueue("hello")
        people.pause()
        h.drain()

        assert (app.job(job.id).task, app.job(job.id).result) == ("late.check", 7)
        assert app.get_chain(chain.id).state == "done"
        assert app.get_message(message.id).state == "sent"
        assert mail.get_message(message.id).state == "sent"
        assert repr(app.object(Book, "a")) == "<object late.Book a>"
        assert app.paused() == ["people"]


def test_a_queue_of_a_part_is_a_queue_once_it_is_included(app: App) -> None:
    part = Part("shop")
    queue = part.queue("mail", concurrency=2, pace=Rate("5/1s"))

    assert isinstance(queue, Queue)
    with pytest.raises(UsageError, match=r"app\.include"):
        queue.pause()
    app.include(part)
    queue.pause()

    assert queue.paused
    assert app.wiring.registry.queue_limits["mail"] == 2


def test_a_refused_option_of_a_parts_queue_is_an_error_where_it_is_written() -> None:
    with pytest.raises(UsageError, match="concurrency"):
        Part("shop").queue("mail", concurrency=0)


def test_the_verbs_of_one_app_are_not_those_of_another(tmp_path: Path) -> None:
    one, two = (App(f"sqlite:///{tmp_path / name}.db") for name in ("one", "two"))

    @one.task
    def greet() -> None: ...

    job = greet.enqueue()

    assert one.job(job.id).id == job.id
    with pytest.raises(NotFound):
        two.job(job.id)
    one.close()
    two.close()
