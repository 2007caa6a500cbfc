"""The command line: post, look, keys, limits."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from systems.mailroom import board, keys
from systems.mailroom.part import part
from systems.mailroom.tests.conftest import Room


def run(name: str, *arguments: str) -> Any:
    return CliRunner().invoke(part.commands[name], arguments)


def test_mails_are_posted_listed_and_counted(room: Room) -> None:
    assert (run("list").stdout, run("list").stderr) == ("", "no such mails\n")
    assert (run("tenants").stdout, run("tenants").stderr) == ("", "no tenants\n")
    assert run("list", "--json").output == ""
    first = run("send", "acme", "ada@demo.example", "Hello", "--key", "k1")
    assert first.output.endswith("of acme is queued\n")
    assert run("send", "acme", "ada@demo.example", "Hello", "--key", "k1").output.endswith(
        "was there already\n"
    )
    assert run("send", "acme", "nobody", "Hello").exit_code == 1
    room.h.advance("1m")
    [line] = run("list", "--json").output.splitlines()
    assert json.loads(line)["state"] == "sent"
    assert "Hello" in run("list", "--tenant", "acme", "--state", "sent").output
    assert run("tenants").output.split()[:4] == ["acme", "1", "of", "10000"]


def test_keys_limits_and_suppressed_addresses_are_set(room: Room) -> None:
    key = run("key", "acme").output.strip()
    assert keys.tenant_of(room.app, key) == "acme"
    assert run("key", "acme", "--revoke").output == "1 taken away\n"
    assert run("limit", "acme", "1").output == "acme may post 1 a day\n"
    run("suppress", "acme", "ada@demo.example", "--why", "bounced")
    run("send", "acme", "ada@demo.example", "Hello")
    second = run("send", "acme", "bob@demo.example", "Hello")
    assert "daily limit of 1" in second.output
    room.h.drain()
    assert board.listed(room.app)[0]["error"] == "suppressed: bounced"
    assert run("suppress", "acme", "ada@demo.example", "--undo").output == "taken off the list\n"


def test_a_name_that_is_no_tenants_is_refused(room: Room) -> None:
    for tenant in ("", "Acme", "a b", "-a", "x" * 64):
        assert run("send", "--", tenant, "ada@demo.example", "Hello").exit_code != 0
        assert run("key", "--", tenant).exit_code != 0
        assert run("limit", "--", tenant, "5").exit_code != 0
        assert run("suppress", "--", tenant, "ada@demo.example").exit_code != 0
    assert board.tenants(room.app) == []
