"""Bodies with far more members or items than their model knows are refused before the model sees them.

Pydantic writes a report about each of them, with no limit: half a million unknown members take seconds.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any, get_args

from annotated_types import MaxLen
from pydantic import BaseModel

from rmhdag.api.problems import Problem
from rmhdag.models.json_values import json_pointer

# So many mistakes are told one by one.
MOST_UNKNOWN = 100
MOST_NAMED = 10

Path = tuple[str | int, ...]


def refuse_many_members(value: Any, annotation: Any, path: Path = ()) -> None:
    """Raises a 422. What has no model may have as many as it likes."""
    model = _model_in(annotation)
    if model is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            refuse_many_members(item, model, (*path, index))
    elif isinstance(value, dict):
        fields = _fields(model)
        if len(value) > len(fields) + MOST_UNKNOWN:
            unknown = list(islice((name for name in value if name not in fields), MOST_NAMED))
            what = f"it has {len(value):,} members, and {len(fields)} are known here"
            places = [(json_pointer(*path, name[:100]), "there is no such member: remove it") for name in unknown]
            raise Problem(422, "invalid_request", what, places=places)
        for name, (inner, most) in fields.items():
            member = value.get(name)
            if isinstance(member, list) and most is not None and len(member) > most:
                what = f"it has {len(member):,} items, and at most {most:,} are allowed"
                raise Problem(422, "invalid_request", what, pointer=json_pointer(*path, name))
            if isinstance(member, list | dict):
                refuse_many_members(member, inner, (*path, name))


@cache
def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The one model that an annotation such as `list[Model] | None` is about."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for choice in get_args(annotation) if (found := _model_in(choice)) is not None), None)


@cache
def _fields(model: type[BaseModel]) -> dict[str, tuple[Any, int | None]]:
    """Their names in JSON, with annotations and the most items that a list may have."""
    return {
        field.alias or name: (
            field.annotation,
            next((one.max_length for one in field.metadata if isinstance(one, MaxLen)), None),
        )
        for name, field in model.model_fields.items()
    }
