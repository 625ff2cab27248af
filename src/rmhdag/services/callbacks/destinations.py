"""Where a callback may go. With a URL, a stranger makes us connect somewhere: our own network is refused.

Whatever the URL itself shows is refused when a job is submitted. Names are resolved at the moment of sending, so all
addresses are checked then, and the connection uses exactly the address that was checked.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from rmhdag.models.refusals import Kind, Refusal

MOST_CHARACTERS = 512
NO_PUBLIC_ADDRESS = "the host has no public address"
LOWEST_FREE_PORT = 1024
WEB_PORTS = {"http": 80, "https": 443}
# Databases, caches, brokers and control planes that accept a line of text from anyone who connects.
REFUSED_PORTS = frozenset(
    {1433, 1521, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 5432, 5433, 5672, 5984, 6379, 6432, 6443}
    | {8500, 9042, 9092, 9200, 9300, 10250, 11211, 27017, 27018}
)

_PLAIN = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
# The resolver reads such a last label as a number, and the whole name as an address: 127.1, 0x7f000001, 2130706433.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Addresses that contain an IPv4 address and reach it through a translator, which we cannot know.
_TUNNELS = [IPv6Network(block) for block in ("64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "::/96")]
_PUBLIC_IPV6 = IPv6Network("2000::/3")
# Special-purpose ranges of IANA's registries: `is_global` knows some of them, depending on the version of Python, and
# calls some public although an operator's own network may use them. No receiver is in any of them.
_SPECIAL_IPV4 = [
    IPv4Network(block)
    for block in (
        "100.64.0.0/10",  # shared by carriers; clouds keep metadata here
        "168.63.129.16/32",  # Azure's host: an ordinary address, the same in every virtual network
        "192.0.0.0/24",  # protocol assignments; Oracle keeps metadata here
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",  # relays to IPv6
        "192.175.48.0/24",
        "198.18.0.0/15",
    )
]
_SPECIAL_IPV6 = [
    IPv6Network(block) for block in ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20")
]


class CallbackRefused(Refusal, ValueError):
    """A callback must not go there. The message is for the submitter; it reveals nothing about our network."""

    def __init__(self, message: str, pointer: str = "/callback_url") -> None:
        remedy = "Give a public https URL, or have the host allowed by RMHDAG_CALLBACK_HOSTS."
        super().__init__(Kind.INVALID, "callback_url_refused", message, remedy=remedy, pointer=pointer)


@dataclass(frozen=True)
class Rules:
    """`hosts` are trusted: their addresses are not checked. One with a port, such as `sink.internal:9000`, allows it.

    `namespace_hosts` are (namespace, host), trusted for that namespace alone.
    """

    hosts: frozenset[str] = frozenset()
    refused_ports: frozenset[int] = REFUSED_PORTS
    namespace_hosts: frozenset[tuple[str, str]] = frozenset()

    def for_namespace(self, namespace: str) -> Rules:
        own = frozenset(host for owner, host in self.namespace_hosts if owner == namespace)
        return Rules(self.hosts | own, self.refused_ports)


PUBLIC_ONLY = Rules()


class Destination(NamedTuple):
    """A URL that may be tried; `host` is a name or an address, without brackets."""

    scheme: str
    host: str
    port: int
    target: str
    is_trusted: bool

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == WEB_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def check_callback_url(text: str, rules: Rules, pointer: str = "/callback_url") -> str:
    """The URL in its normal form. Raises CallbackRefused if the URL itself shows that it is not allowed; `pointer` is
    where it was given.
    """
    try:
        return read_destination(text, rules).url
    except CallbackRefused as refusal:
        raise CallbackRefused(refusal.message, pointer) from None


def read_destination(text: str, rules: Rules) -> Destination:
    if len(text) > MOST_CHARACTERS:
        raise CallbackRefused(f"a callback URL has at most {MOST_CHARACTERS} characters")
    if any(letter in text for letter in "\\\r\n\t ") or not text.isprintable():
        raise CallbackRefused("a callback URL has no spaces, backslashes or control characters; percent-encode them")
    try:
        parts = urlsplit(text)
        scheme, port = parts.scheme, parts.port
    except ValueError:
        raise CallbackRefused("this is not a URL: its host or port cannot be read") from None
    if scheme not in WEB_PORTS:
        raise CallbackRefused("a callback URL begins with https:// or http://")
    if "@" in parts.netloc:
        raise CallbackRefused("a callback URL must not contain a user name or password; callbacks are signed instead")
    if parts.fragment or text.endswith("#"):
        raise CallbackRefused("a callback URL has no fragment (#…): it would never be sent")
    host = _read_host(parts)
    port = WEB_PORTS[scheme] if port is None else port
    bracketed = f"[{host}]" if ":" in host else host
    named = f"{bracketed}:{port}" in rules.hosts
    trusted = named or host in rules.hosts
    if not named:
        _check_port(port, rules)
    if not trusted:
        _check_host(host)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _PLAIN.fullmatch(target):
        raise CallbackRefused("path and query of a callback URL are plain ASCII; percent-encode the rest")
    destination = Destination(scheme, host, port, target, trusted)
    if len(destination.url) > MOST_CHARACTERS:
        raise CallbackRefused(f"a callback URL has at most {MOST_CHARACTERS} characters")
    return destination


def check_addresses(addresses: Collection[str]) -> None:
    """Check all addresses: otherwise the resolver's next answer or the system's choice could be the forbidden one.

    Unknown names and names of our own network get the same message, so that callers cannot probe for names.
    """
    if not addresses or not all(is_public(ip_address(address.partition("%")[0])) for address in addresses):
        raise CallbackRefused(NO_PUBLIC_ADDRESS)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """`is_global` alone accepts multicast, NAT64 and many special ranges, and never unmaps IPv4 addresses."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in _PUBLIC_IPV6 or any(address in block for block in (*_TUNNELS, *_SPECIAL_IPV6)):
            return False
    elif any(address in block for block in _SPECIAL_IPV4):
        return False
    return address.is_global and not (
        address.is_multicast
        or address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_reserved
        or address.is_unspecified
    )


def _read_host(parts: SplitResult) -> str:
    name = parts.hostname
    if not name:
        raise CallbackRefused("a callback URL names a host")
    if parts.netloc.startswith("["):
        try:
            return str(IPv6Address(name))
        except ValueError:
            raise CallbackRefused("the address in brackets is not an IPv6 address") from None
    try:
        # Also converts look-alikes to ASCII: for a resolver, full-width digits and dots are digits and dots.
        host = name.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        raise CallbackRefused("the host is not a name that can be looked up") from None
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise CallbackRefused("the host is not a name that can be looked up")
    return host


def _check_port(port: int, rules: Rules) -> None:
    if port in rules.refused_ports or (port < LOWEST_FREE_PORT and port not in WEB_PORTS.values()):
        raise CallbackRefused(f"callbacks do not go to port {port}; take 443, 80, or one from {LOWEST_FREE_PORT} up")


def _check_host(host: str) -> None:
    if ":" in host:
        check_addresses([host])
    elif _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            check_addresses([socket.inet_ntoa(socket.inet_aton(host))])
        except OSError:
            raise CallbackRefused("the host is neither a name nor an address") from None
    elif host == "localhost" or host.endswith(".localhost"):
        raise CallbackRefused(NO_PUBLIC_ADDRESS)
