"""What several views need to read rows and to show them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)


def shown_as(model: type[M], row: BaseModel, **more: Any) -> M:
    """What a row and another model have in common, as that model. It was validated when the row was read."""
    return model.model_construct(**{**row.__dict__, **more})


def labels(values: Collection[str]) -> str | None:
    """Labels of an enum as PostgreSQL writes an array: a list would come as text, and no partial index would fit."""
    return "{" + ",".join(values) + "}" if values else None
