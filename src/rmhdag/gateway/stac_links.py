"""STAC items in a result: their assets lead to files that a partner can fetch; what cannot be fetched is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A multihash: SHA-256, 32 bytes.
SHA256_PREFIX = "1220"


def with_links(value: Any, hrefs: Mapping[str, str]) -> Any:
    """`hrefs` by the SHA-256 of a file."""
    if isinstance(value, dict):
        copy = {key: with_links(inner, hrefs) for key, inner in value.items()}
        if is_item(value):
            copy["assets"] = _assets(value["assets"], hrefs)
            links = value.get("links")
            copy["links"] = [link for link in links if _is_absolute(link)] if isinstance(links, list) else []
        return copy
    return [with_links(inner, hrefs) for inner in value] if isinstance(value, list) else value


def is_item(value: Mapping[str, Any]) -> bool:
    return value.get("type") == "Feature" and "stac_version" in value and isinstance(value.get("assets"), dict)


def _assets(assets: Mapping[str, Any], hrefs: Mapping[str, str]) -> dict[str, Any]:
    reachable = {}
    for name, asset in assets.items():
        checksum = asset.get("file:checksum") if isinstance(asset, dict) else None
        href = hrefs.get(checksum.removeprefix(SHA256_PREFIX)) if isinstance(checksum, str) else None
        if href is not None:
            reachable[name] = {**asset, "href": href}
    return reachable


def _is_absolute(link: Any) -> bool:
    """Others lead from one file of our catalogue to the next."""
    return isinstance(link, dict) and str(link.get("href", "")).startswith(("http://", "https://"))
