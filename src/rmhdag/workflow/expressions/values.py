"""What JSON values mean in expressions: their kinds, truth, members, equality and text. No value is ever guessed at.

Messages name kinds and keys, never values: a value may be a secret, and messages end up in logs and events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rmhdag.models.limits import TEXT_CHARACTERS
from rmhdag.workflow.expressions.errors import ExpressionError, Missing

MAX_TEXT_CHARACTERS = TEXT_CHARACTERS
# Nanoseconds to compare a pair of elements; see budget.py.
COMPARISON = 500
MAX_INTEGER = 2**63 - 1
MIN_INTEGER = -(2**63)
REMEDY = "Check the name, or add `| default(…)`"

_KINDS = {
    bool: "true/false",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    tuple: "list",
    dict: "object",
    type(None): "null",
}


def kind(value: Any) -> str:
    """The kind in the words of messages; `True` is not a number."""
    found = _KINDS.get(type(value))
    if found is None:
        raise ExpressionError(f"a value of type {type(value).__name__} is not JSON. Give a JSON value")
    return found


def truth(value: Any) -> bool:
    """False for false, null, 0, "" and what is empty; true for all else."""
    return bool(value)


def member(value: Any, key: str | int) -> Any:
    """The value under a key or index. Keys only: Python attributes do not exist here."""
    if type(value) is dict:
        if isinstance(key, str):
            if key in value:
                return value[key]
            raise Missing(f"there is no key {shown(key)}. {REMEDY}")
        raise Missing(f"an object has no position {key}; its keys are text. {REMEDY}")
    if type(value) in (list, tuple):
        if isinstance(key, int) and not isinstance(key, bool):
            if -len(value) <= key < len(value):
                return value[key]
            raise Missing(f"there is no position {key} in a list of {len(value)}. {REMEDY}")
        raise Missing(f"a list has no key {shown(key)}; its positions are numbers from 0. {REMEDY}")
    raise Missing(f"{kind(value)} has no key {shown(key)}. {REMEDY}")


def resolve_path(value: Any, path: Iterable[str | int]) -> Any:
    """Walk down a path of keys and indexes; raises Missing at the first step that is not there."""
    for key in path:
        value = member(value, key)
    return value


def equal(left: Any, right: Any, charge: Callable[[int], None]) -> bool:
    """Deep equality without Python's `1 == True`; values of different kinds differ."""
    if left is right:
        return True
    left_kind = kind(left)
    if left_kind != kind(right):
        return False
    if left_kind not in ("text", "list", "object"):
        return bool(left == right)
    if len(left) != len(right):
        return False
    if left_kind == "text":
        charge(len(left))
        return bool(left == right)
    charge(COMPARISON * len(left))
    if left_kind == "list":
        return all(equal(one, other, charge) for one, other in zip(left, right, strict=True))
    return left.keys() == right.keys() and all(equal(value, right[key], charge) for key, value in left.items())


def text_of(value: Any) -> str:
    """The text a value takes inside other text; what has no obvious text is refused, never printed as Python."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if value is None:
        raise ExpressionError("null has no text. Add `| default('…')`")
    raise ExpressionError(f"a {kind(value)} has no text. Add `| tojson`, or `| join(', ')` for a list")


def shown(value: Any) -> str:
    """A short form for messages."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
