"""Part of a file, as HTTP asks for it (RFC 9110 §14): one range of bytes, or the whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rmhdag.api.problems import Problem

_ONE_RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.IGNORECASE)


class ByteRange(NamedTuple):
    first: int
    length: int


def requested_range(headers: Mapping[str, str], size_bytes: int, etag: str) -> ByteRange | None:
    """None for the whole file: nothing, several ranges or something else is asked for, or `If-Range` names another
    version. Raises a Problem (416) if the range begins behind the end.
    """
    match = _ONE_RANGE.fullmatch(headers.get("range", ""))
    condition = headers.get("if-range")
    if match is None or not any(match.groups()) or (condition is not None and condition.strip() != etag):
        return None
    first_text, last_text = match.groups()
    if first_text:
        first = int(first_text)
        last = min(int(last_text), size_bytes - 1) if last_text else size_bytes - 1
        if last_text and int(last_text) < first:
            return None
    else:
        first, last = max(0, size_bytes - int(last_text)), size_bytes - 1
    if first >= size_bytes or first > last:
        raise Problem(
            416,
            "range_not_satisfiable",
            f"the file has {size_bytes} bytes, and the range begins behind them",
            remedy="Ask for bytes of the file; `Content-Range` says how many it has.",
            headers={"Content-Range": f"bytes */{size_bytes}"},
            pointer="/header/range",
        )
    return ByteRange(first, last - first + 1)


def is_known(headers: Mapping[str, str], etag: str) -> bool:
    """Whether the caller has this version (`If-None-Match`)."""
    tags = {tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(",")}
    return etag in tags or "*" in tags
