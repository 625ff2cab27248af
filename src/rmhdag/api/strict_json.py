"""JSON read strictly: what a second reader might understand otherwise is refused, with its place."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from rmhdag.api.problems import Problem, shorten
from rmhdag.models.json_values import MAX_DEPTH, NotJsonError, check_json, json_pointer

# The longest that has a place in 64 bits, with its sign.
MOST_DIGITS = 20


class _Fault(NamedTuple):
    """Stands in the value that was read, so that its place can be told."""

    what: str
    key: str | None = None


def parse(body: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Refuses duplicate keys, NaN, huge numbers, NUL, lone surrogates, and what is nested too deeply."""
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
