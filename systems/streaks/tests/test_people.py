"""People as rows: what is sealed, what is refused, and people to begin with."""

from __future__ import annotations

from typing import Any

import pytest

from duework import Conflict, NotFound
from systems.streaks import promises, seed
from systems.streaks.channels import secret_of
from systems.streaks.people import Refused, Wishes, add, change, delete, set_active
from systems.streaks.tests.conftest import Place

TOKENS = ("ghp_user001", "token-001", "AAdemo-streak-bot-token")


@pytest.mark.rows("000-37")
def test_tokens_are_sealed_and_in_no_table_payload_or_result(place: Place) -> None:
    person = place.person()
    place.h.advance("15m")

    tables = {
        "streaks_person": "*",
        "streaks_message": "*",
        "streaks_day": "*",
        "duework_job": "payload, result, error",
        "duework_delivery": "*",
        "duework_secret": "*",
    }
    for table, columns in tables.items():
        rows = place.app.read(f"select {columns} from {table}")  # noqa: S608 - constants
        assert rows, table
        text = " ".join(str(bytes(v) if isinstance(v, memoryview) else v) for r in rows for v in r)
        assert not [token for token in TOKENS if token in text], table
    assert place.app.secrets.open(secret_of("github", person.id)) == "ghp_user001"


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("", {}, "login"),
    ("-ada", {}, "login"),
    ("a" * 40, {}, "login"),
    ("ada lovelace", {}, "login"),
    ("ada'; drop table", {}, "login"),
    ("ada", {"zone": "London"}, "zone"),
    ("ada", {"zone": "../etc/passwd"}, "zone"),
    ("ada", {"hour": -1}, "hour"),
    ("ada", {"hour": 24}, "hour"),
    ("ada", {"token": "gho_x"}, "token"),
    ("ada", {"token": ""}, "token"),
    ("ada", {"discord": "https://discord.com/api/webhooks/abc/def"}, "discord"),
    ("ada", {"discord": "https://discord.com/channels/1/2"}, "discord"),
    ("ada", {"telegram_token": "900001"}, "telegram_token"),
    ("ada", {"telegram_chat": "me"}, "telegram_chat"),
]


@pytest.mark.rows("000-X1")
def test_bad_input_is_refused_by_field_and_nothing_is_written(place: Place) -> None:
    for login, wishes, field in BAD:
        with pytest.raises(Refused) as caught, place.app.transaction() as tx:
            add(tx, login, Wishes(**wishes), now=place.h.now)
        assert caught.value.field == field, wishes

    assert place.app.read("select * from streaks_person") == []
    assert place.app.secrets.names("streaks:") == []


def test_one_login_is_one_person_in_whatever_case(place: Place) -> None:
    place.person()

    with pytest.raises(Conflict), place.app.transaction() as tx:
        add(tx, "USER-001", Wishes(token="ghp_other"), now=place.h.now)

    assert len(place.app.read("select * from streaks_person")) == 1
    assert len(place.app.secrets.names("streaks:")) == 3


def test_whoever_is_not_there_cannot_be_changed(place: Place) -> None:
    with place.app.transaction() as tx:
        for verb in (
            lambda: change(tx, "x", Wishes(hour=1), now=0),
            lambda: set_active(tx, "x", active=True, now=0),
            lambda: delete(tx, "x"),
        ):
            with pytest.raises(NotFound):
                verb()


def test_a_webhook_is_taken_as_its_url_or_by_id_and_token(place: Place) -> None:
    person = place.person(discord=None)

    for given in (
        "https://discord.com/api/webhooks/77/a-b_c",
        "https://discord.com/api/v10/webhooks/77/a-b_c",
        "77/a-b_c",
    ):
        place.change(person, discord=given)
        assert place.row("user-001").discord_hook == "77"
        assert place.app.secrets.open(secret_of("discord", person.id)) == "77/a-b_c"


def test_the_same_hour_again_does_not_put_off_what_is_due(place: Place) -> None:
    person = place.person()
    place.h.clock.move_to(place.h.now + 660_000)

    place.change(person, hour=20, zone="UTC")

    assert place.row("user-001").next_at == person.next_at


@pytest.mark.slow
@pytest.mark.rows("000-04", "000-24")
def test_those_to_begin_with_are_due_within_the_hour_and_told_once(place: Place) -> None:
    assert seed(place.app, 12, drills={7: "die"}) == 12
    assert seed(place.app, 12) == 0

    place.h.advance("1h")

    found = promises(place.app)
    assert len(found) == 22
    assert {each.state for each in found} == {"sent"}
    promised = {(each.channel, each.address) for each in found}
    assert place.received() == dict.fromkeys(promised, 1)
    assert len({each.login for each in found}) == 11
    assert place.t.discord.log.over_limit() == []
    assert place.t.telegram.log.over_limit() == []
