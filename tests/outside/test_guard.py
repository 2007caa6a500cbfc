from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duework import UsageError, http
from duework.outside.guard import public
from systems.twins.kit import tls
from systems.twins.kit.tls import Authority
from tests.support.loopback import reply, saying, serving

# Every one of these is an address that is nobody's business, or a text that might become one.
ADDRESSES = """
127.0.0.1 127.0.0.2 127.1.2.3 127.255.255.255 0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 172.16.0.1
172.31.255.255 192.168.0.1 192.168.255.254 169.254.0.1 169.254.169.254 169.254.170.2 169.254.169.253
100.64.0.1 100.100.100.200 100.127.255.255 192.0.0.1 192.0.0.8 192.0.0.9 192.0.0.10 192.0.0.170
192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.175.48.1 198.18.0.1 198.19.255.255
198.51.100.7 203.0.113.9 224.0.0.1 224.0.0.251 239.255.255.250 240.0.0.1 250.1.2.3 255.255.255.255
168.63.129.16 [::] [::1] [0:0:0:0:0:0:0:1] [0000:0000:0000:0000:0000:0000:0000:0001] [::127.0.0.1]
[::7f00:1] [::8.8.8.8] [::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:7F00:0001] [0:0:0:0:0:ffff:127.0.0.1]
[::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [::ffff:10.0.0.1] [::ffff:0:127.0.0.1] [::ffff:0.0.0.0]
[::ffff:100.64.0.1] [64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [64:ff9b::10.0.0.1]
[64:ff9b:1::1] [64:ff9b:1::8.8.8.8] [2002:7f00:1::] [2002:a00:1::1] [2002:a9fe:a9fe::] [2002:808:808::1]
[2001::1] [2001:0:7f00:1::] [2001:0:4136:e378:8000:63bf:3fff:fdd2] [2001:10::1] [2001:20::1] [2001:2::1]
[2001:db8::1] [3fff::1] [100::1] [fc00::1] [fd00::1] [fd00:ec2::254] [fd20:ce::254] [fdff:ffff::1]
[fe80::1] [fe80::a9fe:a9fe] [febf::1] [fec0::1] [fe80::1%25eth0] [fe80::1%eth0] [::1%25lo] [::1%251]
[2606:4700::1%25eth0] [ff02::1] [ff05::2] [ff0e::1] [5f00::1] [4000::1] [8000::1] [c000::1]
[2606:4700::5efe:127.0.0.1] [2606:4700::200:5efe:10.0.0.1] [2620:4f:8000::1]
"""
NOTATIONS = """
2130706433 2852039166 3232235521 0 1 017700000001 0x7f000001 0x7F000001 0xA9FEA9FE 0x7f.0.0.1 0x7f.1
0177.0.0.1 0177.1 0177.0.0.01 00177.0.0.1 0251.0376.0251.0376 127.1 127.0.1 127.65535 10.1 192.168.1
169.254.43518 127.0.0.01 127.0.0.1. 127.0.0.1.. 0x7f000001. 2130706433. localhost. 127.000.000.001
127.0.0.0x1 127.0.0.1.0 256.256.256.256 1.2.3 1.2.3.4.5 0xc0.0xa8.0.1 4294967295 4294967296 127.0.0.１
１２７.０.０.１ ①②⑦.⓪.⓪.① ⑯⑨。②⑤④。⑯⑨｡②⑤④ 127。0。0。1
127．0．0．1 127%2e0%2e0%2e1 %31%32%37.0.0.1 127.0.0.1%00 127.0.0.1%20 [127.0.0.1] [::1 ::1
[::ffff:127.1] [::g] [v1.x] [] localhost LOCALHOST LocalHost ｌｏｃａｌｈｏｓｔ
ⓛⓞⓒⓐⓛⓗⓞⓢⓣ localhost.localdomain.local foo.localhost metadata metadata.google.internal
instance-data.ec2.internal kubernetes.default.svc.cluster.local db redis intranet printer.local
router.lan 1.0.0.127.in-addr.arpa hidden.onion -a.example a-.example a..example .example example..com
exa$mple.com exa&mple.com {a}.example xn-- xn--a.example.0x7f a.example.1
"""  # noqa: RUF001 - digits and letters, but not those
URLS = [
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://@example.com/",
    "http://:@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http://example.com:80@127.0.0.1/",
    "http://example.com%40127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    "http://127.0.0.1\t.example.com/",
    "http://exam\nple.com/",
    "http://example.com\x00.evil.com/",
    "http:///etc/passwd",
    "http:/127.0.0.1/",
    "http://",
    "//127.0.0.1/",
    "//example.com/",
    "example.com",
    "127.0.0.1:80",
    "",
    " http://127.0.0.1/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com:70/_",
    "dict://example.com:11211/stat",
    "javascript:alert(1)",
    "ldap://example.com/",
    "unix:///run/docker.sock",
    "ws://example.com/",
    "http://example.com:0/",
    "http://example.com:22/",
    "http://example.com:25/",
    "http://example.com:1023/",
    "http://example.com:65536/",
    "http://example.com:99999999/",
    "http://example.com:-1/",
    "http://example.com:80:80/",
    "http://" + "a" * 64 + ".example/",
    "http://" + "a." * 200 + "example/",
]
HOSTILE = [
    *(f"http://{host}/" for host in ADDRESSES.split() + NOTATIONS.split()),
    *(f"https://{host}:8443/x" for host in ADDRESSES.split()),
    *URLS,
]
NOBODY = "93.184.215.14"


class Book:
    """A resolver that answers what a test wants, in turn, and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_there_are_many_of_them() -> None:
    assert len(set(HOSTILE)) > 250


@pytest.mark.parametrize("url", HOSTILE)
def test_a_url_that_leads_inside_is_refused_without_being_looked_up(url: str) -> None:
    book = Book([NOBODY])

    with pytest.raises(http.Refused):
        http.Client(guard=http.Guard(resolver=book), timeout="1s").call("GET", url)

    assert book.asked == []


@pytest.mark.parametrize("address", [text.strip("[]") for text in ADDRESSES.split()])
def test_a_name_that_leads_inside_is_refused(address: str) -> None:
    client = http.Client(guard=http.Guard(resolver=Book([NOBODY, address])))

    with pytest.raises(http.Refused, match="stands for") as raised:
        client.call("POST", "https://hooks.example.com/in")

    assert address not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://EXAMPLE.com/x?y=http://127.0.0.1/",
        "https://xn--bcher-kva.example/",
        "https://bücher.example/",
        "http://example.com:80/",
        "https://a_b.example.com:8443/",
        "http://example.com:1024/",
        "http://example.com:65535/#frag",
        "http://8.8.8.8/",
        "http://[2606:4700:4700::1111]/",
        "http://[::ffff:8.8.8.8]/",
        "http://[64:ff9b::808:808]/",
    ],
)
def test_a_public_url_is_let_through(url: str) -> None:
    http.Guard().check(url)


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_the_guard_calls_public_python_calls_global(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    plain = getattr(address, "ipv4_mapped", None) or address
    in_nat64 = address in ipaddress.ip_network("64:ff9b::/96") if address.version == 6 else False

    if public(address) and not in_nat64:
        assert plain.is_global
        assert not plain.is_multicast


def test_a_connection_goes_to_the_address_that_was_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "NAMES", ("hooks.test",))
    authority = Authority(tmp_path)
    # At first what is allowed here, then one that is not: the second look would be refused.
    book = Book(["127.0.0.1"], ["10.0.0.1"])

    async def send(port: int) -> None:
        guard = http.Guard(["127.0.0.1"], resolver=book)
        async with http.Client(guard=guard, ca=authority.ca) as client:
            for _ in range(3):
                await client.post(f"https://hooks.test:{port}/in", content=b"x")
            await client.aclose()
            with pytest.raises(http.Refused):
                await client.post(f"https://hooks.test:{port}/in", content=b"x")

    with serving(saying(reply()), authority.context()) as server:
        asyncio.run(send(server.port))

    # The name is in the certificate, which was checked, and in the header.
    assert {each.headers["host"] for each in server.asked} == {f"hooks.test:{server.port}"}
    assert (len(server.asked), server.connections) == (3, 1)
    assert book.asked == ["hooks.test"] * 2


def test_an_answer_that_is_public_first_and_private_next_is_refused_as_a_whole() -> None:
    with serving(saying(reply())) as server:
        guard = http.Guard(resolver=Book([NOBODY, "127.0.0.1"]))
        with pytest.raises(http.Refused):
            http.Client(guard=guard).call("GET", f"http://rebind.example.com:{server.port}/")

    assert server.connections == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_not_followed(status: int) -> None:
    raw = reply(f"{status} Moved", Location="http://169.254.169.254/latest/meta-data")
    client = http.Client(guard=http.Guard(["127.0.0.0/8"]))
    with serving(saying(raw)) as server:
        with pytest.raises(http.Refused, match="redirect"):
            client.call("GET", server.url)
        client.close()

    assert len(server.asked) == 1


def test_what_the_operator_allows_is_reached_and_nothing_beside_it() -> None:
    guard = http.Guard(["127.0.0.1/32", "hooks.test", "db", "fd00:7::/32"])
    for url in (
        "http://127.0.0.1:22/",
        "http://hooks.test:1/",
        "http://db/",
        "http://[fd00:7::1]/",
    ):
        guard.check(url)
    for url in (
        "http://127.0.0.2/",
        "http://a.hooks.test:1/",
        "http://[fd01::1]/",
        "http://[::1]/",
    ):
        with pytest.raises(http.Refused):
            guard.check(url)


def test_by_name_the_operator_allows_whatever_it_stands_for() -> None:
    guard = http.Guard(["hooks.test"], resolver=Book(["127.0.0.1"]))

    assert guard.addresses("hooks.test", 80) == ["127.0.0.1"]
    with pytest.raises(http.Refused):
        guard.addresses("other.test", 80)


@pytest.mark.parametrize("allow", ["127.0.0.1", ["10.0.0.1/8"], ["*"], ["http://a.example"], [""]])
def test_a_list_that_would_not_do_what_it_says_is_an_error(allow: list[str]) -> None:
    with pytest.raises(UsageError, match="allow"):
        http.Guard(allow)


def test_a_name_that_nobody_knows_had_no_effect() -> None:
    def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(http.Unsent):
        http.Client(guard=http.Guard(resolver=unknown)).call("GET", "http://nowhere.example.com/")
