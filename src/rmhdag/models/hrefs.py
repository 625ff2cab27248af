"""Which links a STAC document may contain. Readers of a catalogue follow them.

A browser runs `javascript:`, a tile server opens `file:` and files in our storage, and everyone can read credentials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

CODE = "HREF_REFUSED"
MOST_SHOWN = 120
# A catalogue makes these itself, relative to where it puts the document.
STRUCTURAL = frozenset({"root", "parent", "self", "collection", "item", "child"})
_SECRET_NAMES = frozenset(
    "sig signature token sastoken accesstoken idtoken refreshtoken authtoken sessiontoken securitytoken apikey key "
    "accesskey accesskeyid awsaccesskeyid googleaccessid subscriptionkey secret clientsecret credential credentials "
    "password passwd pwd auth authorization jwt code policy keypairid".split()
)
_SECRET_STARTS = ("xamz", "xgoog", "xms")
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def find_href_fault(document: Mapping[str, Any], is_ours: Callable[[str], bool]) -> str | None:
    """What is wrong with the first link that must not be published, and what to do; None if all are fit for it.

    `is_ours` says whether a URL is that of a file of the namespace in our storage.
    """
    for where, href, is_structural in _hrefs_of(document):
        fault = "it is not text" if not isinstance(href, str) else _fault_of(href, is_ours, is_structural)
        if fault is not None:
            return f"the link {where} ({shown(href)}) cannot be published: {fault}"
    return None


def shown(href: object) -> str:
    """Without what may be a secret in it."""
    text = re.sub(r"//[^/?#]*@", "//***@", str(href)).partition("?")[0].partition("#")[0]
    text = ascii(text)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _fault_of(href: str, is_ours: Callable[[str], bool], is_structural: bool) -> str | None:
    if _UNSAFE.search(href):
        return "it has spaces, backslashes or control characters; encode them as %20 and so on"
    if not _SCHEME.match(href):
        return _relative_fault(href, is_structural)
    try:
        parts = urlsplit(href)
        host = parts.hostname
    except ValueError:
        return "it is not a URL; write https://…"
    if parts.scheme not in ("http", "https"):
        if is_ours(href):
            return None
        return (
            "it is neither http(s) nor the address of a file that this namespace has in our storage; put the file "
            "there and use the URL that the handlers give, or publish it at an https address"
        )
    if not host:
        return "it names no server; write https://server/path"
    if "@" in parts.netloc:
        return "it has a user name or a password in it; leave them out"
    if any(_is_secret(name) for text in (parts.query, parts.fragment) for name in _names_in(text)):
        return "its query is a signature or a key, which everybody could use; leave it out"
    return None


def _relative_fault(href: str, is_structural: bool) -> str | None:
    path = href
    while "%" in path and (decoded := unquote(path)) != path:
        path = decoded
    if path.startswith("/") or "\\" in path:
        return "it is an absolute path; use the URL that the handlers give, or https"
    if not is_structural and ".." in path.split("?")[0].split("#")[0].split("/"):
        return "it leads out of its folder; use the URL that the handlers give, or https"
    return None


def _names_in(query: str) -> Iterator[str]:
    for name, _ in parse_qsl(query.replace(";", "&"), keep_blank_values=True):
        yield name


def _is_secret(name: str) -> bool:
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return letters in _SECRET_NAMES or letters.startswith(_SECRET_STARTS)


def _hrefs_of(document: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """Place, link, and whether a catalogue replaces it; at any depth, because extensions have links of their own."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, Mapping):
            rel = value.get("rel")
            if "href" in value:
                is_link = where.startswith("/links/") and isinstance(rel, str)
                yield f"{where}/href", value["href"], is_link and rel in STRUCTURAL
            if where.startswith("/providers/") and "url" in value:
                yield f"{where}/url", value["url"], False
            waiting += [(f"{where}/{key}", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{where}/{number}", inner) for number, inner in enumerate(value)]
