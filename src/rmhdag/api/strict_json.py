"""JSON read strictly: what a second reader might understand otherwise is refused, with its place."""

from __future__ import annotations

import json
from typing import Any, Never

from rmhdag.api.problems import Problem
from rmhdag.models.json_values import MAX_DEPTH, NotJsonError, check_json

# The longest that has a place in 64 bits, with its sign.
MOST_DIGITS = 20


def parse(body: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Refuses duplicate keys, NaN, huge numbers, NUL, lone surrogates, and what is nested too deeply."""
    try:
        value = json.loads(
            body,
            object_pairs_hook=_refuse_duplicates,
            parse_constant=_refuse_constant,
            parse_int=_bounded_integer,
        )
        return check_json(value, max_depth=max_depth)
    except NotJsonError as error:
        raise _refusal(f"{error.what}: {error.remedy}", error.pointer) from None
    except RecursionError:
        raise _refusal("nested too deeply: flatten the value") from None
    except UnicodeDecodeError:
        raise _refusal("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _refusal(f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _refusal(f"the key {twice!r} is given twice in one object: keep one")
    return found


def _refuse_constant(word: str) -> Never:
    raise _refusal(f"{word} is not a JSON number: use null or text")


def _bounded_integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise _refusal("an integer of more than 64 bits: send it as text")
    return int(digits)


def _refusal(detail: str, pointer: str = "") -> Problem:
    return Problem(400, "invalid_json", detail, pointer=pointer)
