"""What counts as JSON here: values that PostgreSQL's jsonb takes and gives back, of bounded depth and size."""

from __future__ import annotations

import math
from typing import Any

MAX_DEPTH = 64
MAX_BYTES = 64 * 1024 * 1024

# Beyond 64 bits a number survives neither orjson nor a JavaScript reader.
MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1


class NotJsonError(ValueError):
    """`pointer` says where (RFC 6901), `what` is wrong there, `remedy` what to do."""

    def __init__(self, pointer: str, what: str, remedy: str) -> None:
        super().__init__(f"{what} at {pointer or 'the top'!r}: {remedy}")
        self.pointer = pointer
        self.what = what
        self.remedy = remedy


def check_json(value: Any, *, max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES) -> Any:
    """Return the value, or raise NotJsonError, which names the place as a JSON pointer.

    The size is that of compact UTF-8 without escapes, counted on the way, so that a huge value is refused early.
    """
    _measure(value, "", max_depth, max_bytes, 0)
    return value


def json_pointer(*parts: str | int) -> str:
    """RFC 6901: `/nodes/a~1b/0`; the whole value is the empty text."""
    return "".join("/" + _escape(part) for part in parts)


def _escape(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _measure(value: Any, where: str, depth_left: int, max_bytes: int, size: int) -> int:
    """The bytes counted so far, with this value."""
    if value is None or value is True:
        size += 4
    elif value is False:
        size += 5
    elif isinstance(value, str):
        size += _text_bytes(value, where)
    elif isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise _refusal(where, "an integer of more than 64 bits", "send it as text")
        size += len(str(value))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _refusal(where, f"{value} is not a JSON number", "use null or text")
        size += len(repr(value))
    elif isinstance(value, dict | list):
        if depth_left <= 0:
            raise _refusal(where, "nested too deeply", "flatten the value")
        size += 2 + max(0, len(value) - 1)
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            if isinstance(value, dict):
                if not isinstance(key, str):
                    raise _refusal(where, f"a key of type {type(key).__name__}", "keys are text")
                size += 1 + _text_bytes(key, where)
            size = _measure(member, f"{where}/{_escape(key)}", depth_left - 1, max_bytes, size)
    else:
        raise _refusal(where, f"a {type(value).__name__} is not JSON", "convert it to text, number, list or object")
    if size > max_bytes:
        raise _refusal(where, f"larger than {max_bytes} bytes up to here", "store it as a file and pass its address")
    return size


def _text_bytes(text: str, where: str) -> int:
    if "\0" in text:
        raise _refusal(where, "a NUL character, which PostgreSQL cannot store", "remove it")
    try:
        return 2 + len(text.encode())
    except UnicodeEncodeError as error:
        raise _refusal(where, "a lone surrogate, which is not Unicode text", "remove it") from error


def _refusal(where: str, what: str, remedy: str) -> NotJsonError:
    return NotJsonError(where, what, remedy)
