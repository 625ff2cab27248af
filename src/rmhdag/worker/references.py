"""Parameters that were too large to travel: references to stored values are replaced by the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from rmhdag.models.json_values import json_pointer
from rmhdag.models.leases import PayloadMissingError
from rmhdag.models.stored_values import is_reference


class UnresolvedReferenceError(Exception):
    """A parameter refers to a value that is not there."""


def resolve_references(params: Any, read: Callable[[str], bytes]) -> Any:
    """The parameters with stored values put in as text: nobody on the way to the handler looks into them."""
    return _resolve(params, read, ())


def _resolve(value: Any, read: Callable[[str], bytes], where: tuple[str | int, ...]) -> Any:
    if isinstance(value, dict):
        if is_reference(value):
            try:
                return orjson.Fragment(read(value["sha256"]))
            except PayloadMissingError as error:
                raise UnresolvedReferenceError(f"params {json_pointer(*where)}: {error}; was it pruned?") from error
        return {key: _resolve(member, read, (*where, key)) for key, member in value.items()}
    if isinstance(value, list):
        return [_resolve(member, read, (*where, index)) for index, member in enumerate(value)]
    return value


def may_hold_reference(value: Any) -> bool:
    """Cheap, and never wrongly False."""
    if isinstance(value, dict):
        return "sha256" in value or any(map(may_hold_reference, value.values()))
    return isinstance(value, list) and any(map(may_hold_reference, value))
