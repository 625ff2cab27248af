"""JSON read strictly: what a second reader might understand otherwise is refused, with its place."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import orjson

from rmhdag.api.problems import Problem, shorten
from rmhdag.models.json_values import (
    MAX_DEPTH,
    NotJsonError,
    check_json,
    count_members,
    has_long_digits,
    json_pointer,
)
from rmhdag.models.limits import BODY_CONTAINERS, BODY_VALUES

# The longest that has a place in 64 bits, with its sign.
MOST_DIGITS = 20
MOST_VALUES = BODY_VALUES
MOST_CONTAINERS = BODY_CONTAINERS

# All keys, and some texts that look like one.
_KEY_END = re.compile(rb'"[ \t\r\n]*+:')
# Texts, once nothing in them is escaped; the last one may lack its end.
_TEXT = re.compile(rb'"[^"]*+"?')


class _Fault(NamedTuple):
    """Stands in the value that was read, so that its place can be told."""

    what: str
    key: str | None = None


def parse(body: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Refuses duplicate keys, NaN, huge numbers, NUL, lone surrogates, and what is nested too deeply."""
    if _has_too_many_values(body):
        raise Problem(
            413,
            "too_many_values",
            f"a body has at most {MOST_VALUES} values, and {MOST_CONTAINERS} lists and objects among them",
            remedy="Send less at once, or store it as a file and pass its address.",
        )
    try:
        return read_quickly(body, max_depth)
    except ValueError:
        return read_carefully(body, max_depth)


def read_quickly(body: bytes, max_depth: int) -> Any:
    """As `read_carefully`; ValueError wherever that might differ, or has to find what is wrong."""
    value = orjson.loads(body)
    # orjson makes a float of an integer that is too long, and keeps the last of two members of one name.
    if has_long_digits(body) or len(_KEY_END.findall(body)) != count_members(value):
        raise ValueError("needs a closer look")
    return check_json(value, max_depth=max_depth)


def read_carefully(body: bytes, max_depth: int) -> Any:
    faults: list[_Fault] = []

    def note(what: str, key: str | None = None) -> _Fault:
        faults.append(_Fault(what, key))
        return faults[-1]

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Fault:
        result = dict(pairs)
        if len(result) == len(pairs):
            return result
        names: set[str] = set()
        twice = next(key for key, _ in pairs if key in names or names.add(key))  # type: ignore[func-returns-value]
        return note(f"the key {twice!r} is given twice in one object: keep one", twice)

    def integer(digits: str) -> int | _Fault:
        return int(digits) if len(digits) <= MOST_DIGITS else note("an integer of more than 64 bits: send it as text")

    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=members,
            parse_constant=lambda word: note(f"{word} is not a JSON number: use null or text"),
            parse_int=integer,
        )
        fault = _find_fault(value) if faults else None
        if fault is not None:
            raise _refusal(fault[0], json_pointer(*fault[1]))
        return check_json(value, max_depth=max_depth)
    except NotJsonError as error:
        raise _refusal(f"{error.what}: {error.remedy}", error.pointer) from None
    except RecursionError:
        raise _refusal("nested too deeply: flatten the value") from None
    except UnicodeDecodeError:
        raise _refusal("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _refusal(f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None


def _has_too_many_values(body: bytes) -> bool:
    """A list or an object counts whether it holds anything or not, and so does whatever stands behind a comma."""
    if not _are_too_many(body):
        return False
    # What looks like values may stand in texts. Of a row of backslashes each second one is escaped by the one before.
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in body else body
    return _are_too_many(_TEXT.sub(b"", bare))


def _are_too_many(body: bytes) -> bool:
    containers = body.count(b"[") + body.count(b"{")
    return containers > MOST_CONTAINERS or 1 + containers + body.count(b",") > MOST_VALUES


def _find_fault(value: Any) -> tuple[str, list[str | int]] | None:
    """What is wrong, and where; the first of several."""
    if isinstance(value, _Fault):
        return value.what, [] if value.key is None else [value.key]
    if isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            fault = _find_fault(member)
            if fault is not None:
                return fault[0], [key, *fault[1]]
    return None


def _refusal(detail: str, pointer: str = "") -> Problem:
    return Problem(400, "invalid_json", detail, pointer=shorten(pointer))
