"""One call of the API as data: where it goes, what it carries, and how its answer is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call(Generic[M]):
    """`repeatable`: done twice it does no more than once, so that it may be sent again without knowing its fate."""

    method: str
    path: str
    model: type[M]
    query: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    media_type: str = JSON
    repeatable: bool = True
    # Refusals that are answers.
    accepts: frozenset[int] = frozenset()
    # How long the server may work on it, where it would stop earlier otherwise.
    wait_seconds: int | None = None

    def parameters(self) -> dict[str, list[str]]:
        """What is None is not given; lists are repeated."""
        values = {name: value if isinstance(value, list) else [value] for name, value in self.query.items()}
        return {name: [_text(value) for value in listed if value is not None] for name, listed in values.items()}


def get(path: str, model: type[M], **query: Any) -> Call[M]:
    return Call("GET", f"/api/v1/{path}", model, query)


def post(path: str, model: type[M], body: BaseModel | None, *, repeatable: bool = True) -> Call[M]:
    content = None if body is None else body.model_dump_json(exclude_defaults=True).encode()
    return Call("POST", f"/api/v1/{path}", model, content=content, repeatable=repeatable)


def put(path: str, model: type[M], body: BaseModel, *, repeatable: bool = True) -> Call[M]:
    content = body.model_dump_json(exclude_defaults=True).encode()
    return Call("PUT", f"/api/v1/{path}", model, content=content, repeatable=repeatable)


def segment(text: str) -> str:
    """One segment of a path, whatever is in it; a server would read `.` and `..` as places."""
    return quote(text, safe="").replace(".", "%2E") if text.strip(".") == "" else quote(text, safe="")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
