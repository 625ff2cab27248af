"""JSON read strictly: what a second reader might understand otherwise is refused, with its place."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import orjson

from rmhdag.api.problems import Problem, shorten
from rmhdag.models.json_values import MAX_DEPTH, NotJsonError, check_json, has_long_digits, json_pointer
from rmhdag.models.limits import BODY_CONTAINERS, BODY_VALUES

# The longest that has a place in 64 bits, with its sign.
MOST_DIGITS = 20
# A million numbers need 2 MB of a body, and a hundred times the time that its bytes take.
MOST_VALUES = BODY_VALUES
# An object costs ten times as much as a number: 840,000 of them took 1.7 s.
MOST_CONTAINERS = BODY_CONTAINERS

# All keys, and some texts that look like one.
_KEY_END = re.compile(rb'"[ \t\r\n]*+:')
# Texts, and behind what else a value stands.
_STEP = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|,|[\[{](?![ \t\r\n]*+[\]}])', re.DOTALL)


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
    if has_long_digits(body) or len(_KEY_END.findall(body)) != _count_members(value):
        raise ValueError("needs a closer look")
    return check_json(value, max_depth=max_depth)


def read_carefully(body: bytes, max_depth: int) -> Any:
    faults: list[_Fault] = []

    def note(what: str, key: str | None = None) -> _Fault:
        faults.append(_Fault(what, key))
        return faults[-1]

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Fault:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
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
    # From above: what a bracket holds is counted with the bracket, and an empty one holds nothing.
    containers = body.count(b"[") + body.count(b"{") - body.count(b"[]") - body.count(b"{}")
    if containers < MOST_CONTAINERS and containers + body.count(b",") < MOST_VALUES:
        return False
    values, containers = 1, 0
    for step in _STEP.finditer(body):
        sign = body[step.start()]
        if sign != ord('"'):
            values += 1
            containers += sign != ord(",")
            if values > MOST_VALUES or containers > MOST_CONTAINERS:
                return True
    return False


def _count_members(value: Any) -> int:
    """Of all objects in it."""
    members, level = 0, [value]
    while level:
        below: list[Any] = []
        for one in level:
            if not one:
                continue
            if type(one) is list:
                below += one
            elif type(one) is dict:
                members += len(one)
                below += one.values()
        level = below
    return members


def _find_fault(value: Any) -> tuple[str, list[str | int]] | None:
    """What is wrong, and where; the first of several."""
    if isinstance(value, _Fault):
        return value.what, [] if value.key is None else [value.key]
    if isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            found = _find_fault(member)
            if found is not None:
                return found[0], [key, *found[1]]
    return None


def _refusal(detail: str, pointer: str = "") -> Problem:
    return Problem(400, "invalid_json", detail, pointer=shorten(pointer))
