"""Bodies with far more members or items than their model knows are refused before the model sees them.

Pydantic writes a report about each of them, with no limit: half a million unknown members take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from annotated_types import MaxLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rmhdag.api.problems import Problem
from rmhdag.models.json_values import json_pointer

# So many mistakes are told one by one.
MOST_UNKNOWN = 100
MOST_NAMED = 10

Path = tuple[str | int, ...]


@dataclass(slots=True)
class Shape:
    """What a model says about the lists and objects at one place of a body."""

    # Names that an object may have; None if it may have any, or none may stand here.
    members: dict[str, Shape] | None = None
    items: Shape | None = None
    most_items: int | None = None
    # Of an object with names of the caller's own.
    values: Shape | None = None
    most_values: int | None = None
    models: list[type[BaseModel]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether nothing here has to be looked at."""
        return self.members is None and self.items is None and self.values is None


def shape_of(annotation: Any) -> Shape:
    """Of all that an annotation such as `list[Model] | None` allows."""
    shape = Shape()
    _add(shape, annotation, ())
    return shape


def _add(shape: Shape, annotation: Any, metadata: Iterable[Any]) -> None:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        _add(shape, arguments[0], (*arguments[1:], *metadata))
    elif origin in (Union, UnionType):
        for choice in arguments:
            _add(shape, choice, metadata)
    elif origin is list:
        shape.items, shape.most_items = shape_of(arguments[0]), _most(metadata)
    elif origin is dict:
        shape.values, shape.most_values = shape_of(arguments[1]), _most(metadata)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        shape.members = {**(shape.members or {}), **_members(annotation)}
        shape.models.append(annotation)


def _most(metadata: Iterable[Any]) -> int | None:
    for item in metadata:
        for inner in item.metadata if isinstance(item, FieldInfo) else (item,):
            if isinstance(inner, MaxLen):
                return inner.max_length
    return None


@cache
def _members(model: type[BaseModel]) -> dict[str, Shape]:
    """By their names in JSON."""
    members: dict[str, Shape] = {}
    for name, info in model.model_fields.items():
        members[info.alias or name] = shape = Shape()
        _add(shape, info.annotation, info.metadata)
    return members


def refuse_many_members(value: Any, shape: Shape, path: Path = (), *, most_unknown: int = MOST_UNKNOWN) -> None:
    """Raises a 422. What has no model may have as many as it likes; what has the wrong type is the model's to name."""
    if type(value) is list:
        if shape.items is not None:
            _refuse_too_many(value, shape.most_items, "items", path)
            if not shape.items.is_open:
                for index, item in enumerate(value):
                    refuse_many_members(item, shape.items, (*path, index), most_unknown=most_unknown)
    elif type(value) is dict:
        if shape.members is not None:
            _refuse_unknown(value, shape.members, path, most_unknown)
            _look_into(value, shape.members, path, most_unknown)
        elif shape.values is not None:
            _refuse_too_many(value, shape.most_values, "members", path)
            if not shape.values.is_open:
                _look_into(value, dict.fromkeys(value, shape.values), path, most_unknown)


def _look_into(value: dict[str, Any], members: Mapping[str, Shape], path: Path, most_unknown: int) -> None:
    for name, shape in members.items():
        if not shape.is_open and name in value:
            refuse_many_members(value[name], shape, (*path, name), most_unknown=most_unknown)


def _refuse_unknown(value: dict[str, Any], members: Mapping[str, Shape], path: Path, most_unknown: int) -> None:
    if len(value) > most_unknown and len(value.keys() - members.keys()) > most_unknown:
        unknown = list(islice((name for name in value if name not in members), MOST_NAMED))
        what = f"it has {len(value):,} members, and {len(members)} are known here"
        places = [(json_pointer(*path, name[:100]), "there is no such member: remove it") for name in unknown]
        raise Problem(422, "invalid_request", what, places=places)


def _refuse_too_many(value: list[Any] | dict[str, Any], most: int | None, what: str, path: Path) -> None:
    if most is not None and len(value) > most:
        sentence = f"it has {len(value):,} {what}, and at most {most:,} are allowed"
        raise Problem(422, "invalid_request", sentence, pointer=json_pointer(*path))
