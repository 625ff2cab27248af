"""Keyset pages: a cursor is where the page before ended, opaque to callers and believed only if it is one of ours."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query

from rmhdag.api.problems import Problem
from rmhdag.models.json_values import check_json

T = TypeVar("T")

CursorParameter = Annotated[
    str | None, Query(max_length=400, description="`next_cursor` of the page before; without it, the first page")
]


def write_cursor(*place: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def read_cursor(text: str | None, build: Callable[..., T]) -> T | None:
    """`build` gets the place as it was written, and raises ValueError or TypeError if it is none."""
    if text is None:
        return None
    try:
        place: Sequence[Any] = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not isinstance(place, list):
            raise ValueError(text)
        return build(*check_json(place))
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise Problem(
            400,
            "invalid_cursor",
            "the cursor is not one that we gave out",
            remedy="Begin again without a cursor.",
            pointer="/query/cursor",
        ) from None
