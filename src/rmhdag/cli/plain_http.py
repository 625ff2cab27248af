"""Addresses that anybody on the way can read: http to or from another machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from rmhdag.cli.output import warn


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def warn_of_plain_http(url: str) -> None:
    """Before a key is sent there."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        warn(f"{parts.hostname} uses http, so anybody on the network path can read the key; use https")


def warn_of_open_listener(host: str) -> None:
    """The API itself speaks no TLS."""
    if not is_loopback(host):
        warn(
            f"the API listens on {host} without TLS, so keys and data cross the network unencrypted; listen on "
            f"127.0.0.1 and put a proxy with TLS in front"
        )
