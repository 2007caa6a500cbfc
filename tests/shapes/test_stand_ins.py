"""What a test patches, or gives to its Harness, is called instead of other people's systems.

The mocks here are those that users bring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from duework import Accepted, App, Channel, Outbox, Part, Pending, Sent, Throttled, UsageError
from duework.testing import Harness
from tests.support.harness import HarnessOn


@dataclass
class Message:
    to: str


class Mail(Outbox[Message]):
    """The real one: no test may come as far as this."""

    async def submit(self, message: Message, key: str) -> Accepted:
        raise AssertionError("the real provider was called")

    async def poll(self, handle: str, message: Message) -> Pending:
        raise AssertionError("the real provider was called")


class SyncMail(Outbox[Message]):
    """The same in threads."""

    def submit(self, message: Message, key: str) -> Accepted:  # type: ignore[override]
        raise AssertionError("the real provider was called")

    def poll(self, handle: str, message: Message) -> Pending:  # type: ignore[override]
        raise AssertionError("the real provider was called")


class Recorder:
    """A stand-in that is nobody's subclass; takes a poll to be through."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def submit(self, message: Message, key: str) -> Accepted:
        self.calls.append(("submit", message.to, key))
        return Accepted("h1")

    def poll(self, handle: str, message: Message) -> Sent:
        self.calls.append(("poll", handle, message.to))
        return Sent()


class AsyncRecorder(Recorder):
    async def submit(self, message: Message, key: str) -> Accepted:  # type: ignore[override]
        return super().submit(message, key)

    async def poll(self, handle: str, message: Message) -> Sent:  # type: ignore[override]
        return super().poll(handle, message)


def send_text(text: str) -> None:
    raise AssertionError("the real provider was called")


async def send_with_key(text: str, key: str) -> None:
    raise AssertionError("the real provider was called")


class Client:
    def send(self, text: str) -> None:
        raise AssertionError("the real provider was called")

    @staticmethod
    def send_static(text: str) -> None:
        raise AssertionError("the real provider was called")


CLIENT = Client()
REAL = send_text


def declared(outbox: Outbox[Message] | None = None) -> tuple[App, Any, Any]:
    app = App("sqlite:///never-opened.db")
    box = app.outbox("mail", outbox or Mail())
    channels = {
        "text": Channel(send_text),
        "keyed": Channel(send_with_key),
        "method": Channel(CLIENT.send),
        "static": Channel(Client.send_static),
    }

    @app.delivery(channels=channels, retries=0)
    def reminder(channel: str) -> dict[str, str]:
        return {channel: "hello"}

    return app, box, reminder


@pytest.mark.parametrize("real", [Mail, SyncMail])
@pytest.mark.parametrize("fake", [Recorder, AsyncRecorder])
def test_an_outbox_given_to_the_harness_is_submitted_to_and_polled(
    emptied: str, real: type[Outbox[Message]], fake: type[Recorder]
) -> None:
    app, box, _ = declared(real())
    recorder = fake()

    with HarnessOn(app, emptied, outboxes={"mail": recorder}) as h:
        made = box.enqueue(Message("ada"))
        h.advance("1m")
        found = box.get_message(made.id)

    assert found.state == "sent"
    assert recorder.calls == [("submit", "ada", found.sent_key), ("poll", "h1", "ada")]


def test_the_rules_of_the_real_outbox_hold_for_its_stand_in(emptied: str) -> None:
    class Refusing(Recorder):
        def submit(self, message: Message, key: str) -> Accepted:
            self.calls.append(("submit", message.to))
            raise Throttled("1h") if len(self.calls) == 1 else PermissionError("no")

    real = Mail()
    real.give_up_on = (PermissionError,)
    app, box, _ = declared(real)
    fake = Refusing()

    with HarnessOn(app, emptied, outboxes={"mail": fake}) as h:
        made = box.enqueue(Message("ada"))
        h.advance("59m")
        assert len(fake.calls) == 1
        h.advance("2m")
        found = box.get_message(made.id)

    assert (found.state, len(fake.calls)) == ("failed", 2)


def test_a_method_of_an_outbox_that_is_patched_is_the_one_that_is_called(
    emptied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Mail()
    app, box, _ = declared(real)

    with HarnessOn(app, emptied) as h:
        monkeypatch.setattr(Mail, "submit", mock.AsyncMock(return_value=Sent()))
        by_class = box.enqueue(Message("ada"))
        h.drain()
        monkeypatch.setattr(real, "submit", lambda message, key: Sent())
        by_object = box.enqueue(Message("bob"))
        h.drain()

        assert box.get_message(by_class.id).state == "sent"
        assert box.get_message(by_object.id).state == "sent"


@pytest.mark.parametrize("name", ["text", "keyed", "method", "static"])
@pytest.mark.parametrize("fake", [mock.Mock, mock.AsyncMock])
def test_a_channel_given_to_the_harness_is_what_sends(emptied: str, name: str, fake: Any) -> None:
    app, _, reminder = declared()
    sender = fake()

    with HarnessOn(app, emptied, channels={f"reminder.{name}": sender}) as h:
        made = reminder.enqueue(name)
        h.drain()
        keys = [each.key for each in reminder.channels(made)]
        result = made.refresh().result

    assert result["sent"] == [name]
    more = {"key": keys[0]} if name == "keyed" else {}
    sender.assert_called_once_with("hello", **more)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("text", f"{__name__}.send_text"),
        ("keyed", f"{__name__}.send_with_key"),
        ("method", f"{__name__}.CLIENT.send"),
        ("method", f"{__name__}.Client.send"),
        ("static", f"{__name__}.Client.send_static"),
    ],
)
@pytest.mark.parametrize("autospec", [None, True])
def test_a_function_of_a_channel_that_is_patched_is_what_sends(
    emptied: str, name: str, where: str, autospec: bool | None
) -> None:
    app, _, reminder = declared()

    with HarnessOn(app, emptied) as h, mock.patch(where, autospec=autospec) as fake:
        made = reminder.enqueue(name)
        h.drain()
        result = made.refresh().result

    assert result["sent"] == [name]
    assert fake.call_count == 1


def test_a_channel_keeps_its_function_when_another_one_of_that_name_is_defined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def second(text: str) -> None:
        raise AssertionError("another channel's function was called")

    second.__qualname__ = "send_text"
    channel = Channel(send_text)

    monkeypatch.setitem(globals(), "send_text", second)

    assert channel.current() is REAL


def test_functions_without_a_name_of_their_own_are_called_as_they_are() -> None:
    def local(text: str) -> None: ...

    nameless = lambda text: None  # noqa: E731 - that is the point
    bare = mock.Mock()

    assert [Channel(each).current() for each in (local, nameless, bare)] == [local, nameless, bare]


def test_after_the_harness_the_real_ones_are_called_again(emptied: str) -> None:
    app, box, reminder = declared()
    outer, inner = Recorder(), Recorder()

    with HarnessOn(app, emptied, outboxes={"mail": outer}) as h:
        with Harness(app, outboxes={"mail": inner}, channels={"reminder.text": mock.Mock()}) as g:
            box.enqueue(Message("inner"))
            reminder.enqueue("text")
            g.drain()
        box.enqueue(Message("outer"))
        failed = reminder.enqueue("text")
        h.drain()
        error = failed.refresh().error

    assert [call[1] for call in outer.calls] == ["outer"]
    assert [call[1] for call in inner.calls] == ["inner"]
    assert "the real provider was called" in str(error)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"outboxes": {"email": Recorder()}}, "there is no outbox email; there are: mail"),
        ({"channels": {"text": print}}, "there is no channel text; there are: reminder.keyed"),
        ({"channels": {"reminder": print}}, "there is no channel reminder; "),
        ({"outboxes": {"mail": print}}, r"has no method submit\(message, key\)"),
        ({"channels": {"reminder.text": "x"}}, "cannot be called"),
    ],
)
def test_what_a_harness_cannot_replace_is_an_error_that_changes_nothing(
    emptied: str, options: dict[str, Any], says: str
) -> None:
    app, box, _ = declared()
    good = {"outboxes": {"mail": Recorder()}, "channels": {"reminder.keyed": print}}
    harness = HarnessOn(app, emptied, **{**good, **options})

    with pytest.raises(UsageError, match=says):
        harness.__enter__()

    with HarnessOn(app, emptied) as h:
        made = box.enqueue(Message("ada"))
        h.drain()
        assert "the real provider was called" in str(box.get_message(made.id).error)


def test_the_names_of_a_part_go_before_those_of_its_outboxes_and_channels(emptied: str) -> None:
    part = Part("shop")
    box = part.outbox("mail", Mail())

    @part.delivery(channels={"text": Channel(send_text)})
    def reminder(text: str) -> dict[str, str]:
        return {"text": text}

    app = App("sqlite:///never-opened.db")
    app.include(part)
    fake, sender = Recorder(), mock.Mock()

    with HarnessOn(
        app, emptied, outboxes={"shop.mail": fake}, channels={"shop.reminder.text": sender}
    ) as h:
        box.enqueue(Message("ada"))
        reminder.enqueue("hello")
        h.drain()

    assert len(fake.calls) == 1
    sender.assert_called_once_with("hello")
