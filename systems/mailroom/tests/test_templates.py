"""Templates: what they may do, what they may not, and where they end."""

from __future__ import annotations

from typing import Any

import pytest

from duework import NotFound, UsageError
from systems.mailroom import board, templates
from systems.mailroom.mail import NewMessage
from systems.mailroom.posting import post
from systems.mailroom.templates import Stored, render
from systems.mailroom.tests.conftest import Room
from systems.mailroom.tests.test_web import acme, client  # noqa: F401 - fixtures
from tests.web.conftest import Browser


def made(text: str, values: dict[str, Any], **more: str) -> templates.Rendered:
    return render(Stored(name="x", subject=more.pop("subject", "Hi"), text=text, **more), values)


def test_values_loops_conditions_and_filters_make_a_mail() -> None:
    text = (
        "Dear {{ name | default('friend') | title }},\n"
        "{% for each in order.lines %}{{ loop.index }}. {{ each.name }}: {{ each.price | round(2) }}\n"
        "{% endfor %}{% if order.paid %}Paid.{% else %}Please pay.{% endif %}"
    ).replace("{{ loop.index }}. ", "- ")
    order = {"paid": False, "lines": [{"name": "Tea", "price": 3.456}, {"name": "Cup", "price": 9}]}

    found = made(text, {"name": "ada", "order": order}, html="<p>{{ name }}</p>")

    assert found.text == "Dear Ada,\n- Tea: 3.46\n- Cup: 9\nPlease pay."
    assert found.html == "<p>ada</p>"


def test_html_is_escaped_and_text_is_not() -> None:
    found = made(
        "{{ x }}", {"x": "<b>"}, html="{{ x }}{{ x | safe_ }}".replace("{{ x | safe_ }}", "")
    )

    assert (found.text, found.html) == ("<b>", "&lt;b&gt;")


@pytest.mark.parametrize("value", ["a\nbcc: eve@x.example", "a\r\nX: y", "\x00", "a\u2028b"])
def test_a_subject_that_would_break_its_line_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="not one line"):
        made("Hi", {"x": value}, subject="Hello {{ x }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ x.__init__ }}",
        "{{ x['__class__'] }}{{ x() }}",
        "{{ range(10) }}",
        "{{ self }}{{ self() }}",
        "{{ x | attr('y') }}",
        "{{ x | map('upper') }}",
        "{{ 'a' * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ x ~ x }}",
        "{% set y = x %}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% for a in x recursive %}{{ loop(a) }}{% endfor %}",
        "{% for a in x %}" * 5 + "{% endfor %}" * 5,
        "{{ x | safe }}",
        "{{ x | center(1000000000) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ x",
        "{% if %}",
        "{{ (" * 5000,
    ],
)
def test_what_could_run_away_is_refused_before_it_is_stored(source: str) -> None:
    with pytest.raises(UsageError):
        templates.compiled(source, templates.PLAIN, "text")


def test_loops_together_and_what_comes_of_them_are_bounded() -> None:
    many = list(range(1000))
    with pytest.raises(UsageError, match="go round at most"):
        made("{% for a in x %}{% for b in x %}{% endfor %}{% endfor %}", {"x": many})
    with pytest.raises(UsageError, match="characters come of it"):
        made("{% for a in x %}{{ y }}{% endfor %}", {"x": many, "y": "z" * 5000})
    with pytest.raises(UsageError, match="at most 200000 bytes"):
        made("{{ x }}", {"x": "y" * 300_000})


def test_a_value_is_data_and_never_a_template() -> None:
    assert made("{{ x }}", {"x": "{{ 7 }}{% for %}"}).text == "{{ 7 }}{% for %}"
    assert made("{{ x.y.z }}{{ x.upper }}|", {"x": "a"}).text == "|"


@pytest.mark.rows("002-X4")
def test_what_was_rendered_stays_when_the_template_changes(room: Room) -> None:
    templates.store("acme", Stored(name="hello", subject="Hello {{ name }}", text="One"))
    new = NewMessage(to="ada@demo.example", template="hello", values={"name": "Ada"})
    first = post(room.app, "acme", "k", new)
    templates.store("acme", Stored(name="hello", subject="Hello {{ name }}", text="Two"))

    again = post(room.app, "acme", "k", new)

    assert (again.id, again.existed) == (first.id, True)
    assert board.shown(first)["subject"] == "Hello Ada"
    assert first.message["text"] == "One"
    with pytest.raises(NotFound):
        post(room.app, "birch", "k", new)


def test_templates_live_by_the_api(room: Room, acme: Browser) -> None:  # noqa: F811
    body = {"subject": "Order {{ n }}", "text": "Hi {{ name }}"}
    assert acme.put("/templates/order", json=body).status_code == 200
    assert [each["name"] for each in acme.get("/templates").json()] == ["order"]
    shown = acme.post("/templates/order/preview", json={"values": {"n": 7, "name": "Ada"}}).json()
    assert shown == {"subject": "Order 7", "text": "Hi Ada", "html": ""}
    sent = {"to": "ada@demo.example", "template": "order", "values": {"n": 7}}
    headers = {"idempotency-key": "k"}
    assert acme.post("/messages", json=sent, headers=headers).json()["subject"] == "Order 7"
    for name, wrong, status in (
        ("order", {**body, "text": "{{ x() }}"}, 400),
        ("Order!", body, 400),
        ("order", {"text": "x"}, 422),
        ("order", {**body, "colour": "red"}, 422),
    ):
        assert acme.put(f"/templates/{name}", json=wrong).status_code == status
    assert acme.get("/templates/none").status_code == 404
    assert acme.delete("/templates/order").status_code == 204
    assert acme.delete("/templates/order").status_code == 404
    assert client(room).get("/templates").status_code == 401
