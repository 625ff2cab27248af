"""Where callbacks may go: every way to write an address of our own network that is known to have fooled somebody."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from rmhdag.services.callbacks.destinations import (
    PUBLIC_ONLY,
    CallbackRefused,
    Rules,
    check_addresses,
    check_callback_url,
    is_public,
    read_destination,
)

REFUSED = [
    # loopback in the spellings of inet_aton
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.0.0.1./",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://①②⑦.0.0.1/",
    "http://LOCALHOST./",
    "http://localhost:8080/",
    "http://a.localhost/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    # IPv4 inside IPv6
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::8.8.8.8]/",
    "http://[64:ff9b:1::1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    # not public
    "http://169.254.169.254/latest/meta-data/",
    "http://100.64.0.1/",
    "http://10.1.2.3/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://0.0.0.0/",
    "http://0/",
    "http://[::]/",
    "http://[fd00::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://192.88.99.1/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
    # public by their number only
    "http://168.63.129.16/metadata",
    "http://[::ffff:168.63.129.16]/",
    "http://192.0.0.8/",
    "http://192.0.0.9/",
    "http://192.0.0.192/opc/v2/",
    "http://100.100.100.200/latest/meta-data/",
    "http://198.19.255.255/",
    "http://192.31.196.1/",
    "http://192.52.193.1/",
    "http://192.175.48.1/",
    "http://[3fff::1]/",
    "http://[3fff:fff::1]/",
    "http://[3ffe::1]/",
    "http://[5f00::1]/",
    "http://[2001:20::1]/",
    "http://[2001:30::1]/",
    "http://[2001:1::1]/",
    "http://[2620:4f:8000::1]/",
    "http://[fd00:ec2::254]/",
    # not what it seems
    "http://good@127.0.0.1/",
    "http://user:secret@example.org/",
    "http://@example.org/",
    "http://good\\@127.0.0.1/",
    "http://example.org\\@127.0.0.1/",
    "http://example.org#@127.0.0.1/",
    "http://exa mple.org/",
    "http://example.org/\r\nX: y",
    "http://example.org/\x00",
    "http://exam\tple.org/",
    "http://%31%32%37.0.0.1/",
    "http://1.2.3.4.5/",
    "http://example.0x7f/",
    "http://999999999999/",
    "http:///x",
    "http://",
    "https:example.org",
    "//example.org/",
    "example.org",
    "",
    "http://-a.example/",
    "http://a..example/",
    "http://[::1/",
    "http://[::g]/",
    "http://[127.0.0.1]/",
    "http://example.org/ä",
    "http://example.org/#here",
    f"http://{'a.' * 130}example/",
    f"http://example.org/{'x' * 600}",
    # other schemes
    "file:/etc/passwd",
    "gopher://example.org/",
    "ftp://example.org/",
    "data:text/plain,x",
    "ws://example.org/",
    "javascript:alert(1)",
    # ports
    "http://example.org:22/",
    "http://example.org:25/",
    "http://example.org:0/",
    "http://example.org:5432/",
    "http://example.org:6379/",
    "http://example.org:99999/",
    "http://example.org:x/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_it_is_refused_before_anybody_connects(url: str) -> None:
    with pytest.raises(CallbackRefused) as caught:
        check_callback_url(url, PUBLIC_ONLY)
    assert str(caught.value)


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTPS://Example.ORG:443/Hook?a=1&b=%20", "https://example.org/Hook?a=1&b=%20"),
        ("http://example.org:80/x", "http://example.org/x"),
        ("http://example.org:8080/x", "http://example.org:8080/x"),
        ("https://example.org./x", "https://example.org/x"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://93.184.215.14/x", "https://93.184.215.14/x"),
        ("https://[2606:4700:0::1111]/x", "https://[2606:4700::1111]/x"),
    ],
)
def test_what_is_public_has_one_spelling(url: str, written: str) -> None:
    assert check_callback_url(url, PUBLIC_ONLY) == written
    assert check_callback_url(written, PUBLIC_ONLY) == written


def test_a_host_that_is_named_is_trusted() -> None:
    rules = Rules(frozenset({"sink.internal", "127.0.0.1:5432", "[::1]:9000"}))
    assert read_destination("http://sink.internal:9000/", rules).is_trusted
    assert read_destination("http://127.0.0.1:5432/", rules).is_trusted
    assert read_destination("http://[::1]:9000/", rules).is_trusted
    assert not read_destination("http://other.internal/", rules).is_trusted
    for url in ("http://sink.internal:5432/", "http://127.0.0.1:8000/", "http://[::1]:9001/"):
        with pytest.raises(CallbackRefused):
            read_destination(url, rules)


def test_one_bad_address_among_good_ones_is_enough() -> None:
    check_addresses(["93.184.215.14", "2606:4700::1111"])
    for bad in ("127.0.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "168.63.129.16", "3fff::1"):
        with pytest.raises(CallbackRefused, match="no public address"):
            check_addresses(["93.184.215.14", bad])
    with pytest.raises(CallbackRefused, match="no public address"):
        check_addresses([])


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "192.0.1.1", "168.63.129.15", "2001:4860:4860::8888", "::ffff:8.8.8.8"]
)
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))
