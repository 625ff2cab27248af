"""Warnings about data, and how they are added up: by code, with counts, of a bounded number of kinds."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from rmhdag.models.columns import Message
from rmhdag.models.error_codes import CODE_PATTERN

MOST_KINDS = 100
# What is kept of a message. A hundred of them stand in a row.
KEPT_CHARACTERS = 500
MOST_COUNTED = 2**53 - 1
REST = "MORE_WARNINGS"
REST_MESSAGE = f"warnings of further kinds; only {MOST_KINDS} kinds are kept"


class DataWarning(BaseModel):
    """Something about the data that a person should know although the task succeeded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: Annotated[str, Field(pattern=CODE_PATTERN)]
    message: Message
    count: Annotated[int, Field(ge=1, le=MOST_COUNTED, strict=True)] = 1


class WarningSum:
    """Warnings by code. Of each code the first message is kept; kinds beyond the limit are only counted."""

    def __init__(self, stored: Iterable[Mapping[str, Any]] | None = None) -> None:
        self._kinds: dict[str, dict[str, Any]] = {}
        self.add(stored or ())

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def add(self, warnings: Iterable[Mapping[str, Any]]) -> None:
        for warning in warnings:
            code, message = warning["code"], warning["message"]
            if code not in self._kinds and len(self._kinds) - (REST in self._kinds) >= MOST_KINDS:
                code, message = REST, REST_MESSAGE
            kind = self._kinds.setdefault(code, {"code": code, "message": message[:KEPT_CHARACTERS], "count": 0})
            kind["count"] = min(kind["count"] + warning["count"], MOST_COUNTED)

    def as_json(self) -> list[dict[str, Any]]:
        """In the order in which they first came, what is only counted last."""
        rest = self._kinds.get(REST)
        return [dict(kind) for kind in self._kinds.values() if kind is not rest] + ([dict(rest)] if rest else [])
