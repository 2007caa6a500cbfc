"""`duework tokens`: make, list, revoke."""

from __future__ import annotations

from duework import App
from duework.web.tokens import Tokens
from tests.cli.conftest import Duework


def test_a_token_is_shown_once_and_listed_without_its_secret(shop: App, duework: Duework) -> None:
    made = duework("tokens", "add", "ada", "--scope", "operate", "--expires", "90d", "--json")
    secret = made.document["token"]

    who = Tokens(shop).who(secret, "token")
    assert not isinstance(who, str)
    assert (who.name, who.scope) == ("ada", "operate")
    listed = duework("tokens", "list")
    assert "ada" in listed.out
    assert "in 89d" in listed.out or "in 90d" in listed.out
    assert secret not in listed.out
    assert duework("tokens", "list", "--json").lines[0]["scope"] == "operate"
    assert duework("tokens", "add", "bob").out.strip().startswith("dw_")


def test_a_token_is_revoked_once(shop: App, duework: Duework) -> None:
    secret = duework("tokens", "add", "ada", "--json").document["token"]

    assert duework("tokens", "revoke", "ada").out == "ada revoked\n"

    assert Tokens(shop).who(secret, "token") == "revoked"
    assert "revoked" in duework("tokens", "list").out
    assert duework("tokens", "revoke", "ada").code == 1
    assert duework("tokens", "add", "ada").code == 1
    assert duework("tokens", "add", "eve", "--scope", "root").code == 78
    assert duework("tokens", "add", "eve", "--expires", "soon").code == 78
