"""Handlers of the campaign's workload: they make, take and resemble large values, and ask to be called again."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from rmhdag.handlers.contract import HandlerContext, RetryLater
from rmhdag.handlers.registry import handler


class _Params(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MakeParams(_Params):
    characters: Annotated[int, Field(ge=0, le=8_000_000)]


@handler("chaos.make")
def make(ctx: HandlerContext[MakeParams]) -> dict[str, Any]:
    """An output of that size."""
    return {"text": "x" * ctx.params.characters}


class MeasureParams(_Params):
    values: list[Any]


@handler("chaos.measure")
def measure(ctx: HandlerContext[MeasureParams]) -> dict[str, Any]:
    """How many characters and members there are in what it was given."""
    return {"size": sum(_size(value) for value in ctx.params.values)}


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_size(member) for member in value.values())
    return len(value) if isinstance(value, str | list) else 1


class DescribeParams(_Params):
    media_type: str
    size_bytes: int


@handler("chaos.describe_file")
def describe_file(ctx: HandlerContext[DescribeParams]) -> dict[str, Any]:
    """What handlers say of a file that they made. The platform's own references have the same keys."""
    return {"sha256": "ab" * 32, "size_bytes": ctx.params.size_bytes, "media_type": ctx.params.media_type}


class SnoozeParams(_Params):
    seconds: Annotated[float, Field(ge=0, le=60)]


@handler("chaos.snooze")
def snooze(ctx: HandlerContext[SnoozeParams]) -> dict[str, Any]:
    """Not at the first time: it asks to be called again."""
    if ctx.lease_epoch == 1:
        raise RetryLater(ctx.params.seconds)
    return {"done": True}
