"""What counts as JSON here: values that PostgreSQL's jsonb takes and gives back, of bounded depth and size."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import orjson

from rmhdag.models.limits import JSON_DEPTH, PAYLOAD_BYTES

MAX_DEPTH = JSON_DEPTH
MAX_BYTES = PAYLOAD_BYTES

# Beyond 64 bits a number survives neither orjson nor a JavaScript reader.
MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1

# By this key references to stored values are known (models/references.py). No data from outside may have it.
RESERVED_KEY = "rmhdag:payload"

# As orjson writes it: escapes in the original text are gone by then.
_RESERVED = orjson.dumps(RESERVED_KEY)
_PLAIN = frozenset({type(None), bool, int, float, str, list, dict})
_ZERO_FOR_DIGITS = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_MOST_PARTS = 2_000_000
# Looked at one by one.
_SMALL_PARTS = 32
_SMALL_DEPTH = 8
_SMALL_LETTERS = 4096
# What is shorter has a place in 64 bits.
_LONG_INTEGER = b"0" * 19

# The pointer of a value is written when it is asked for: those of a list below a long key are as long each.
_Place = tuple["_Place | None", str | int]


class NotJsonError(ValueError):
    """`pointer` says where (RFC 6901), `what` is wrong there, `remedy` what to do."""

    def __init__(self, pointer: str, what: str, remedy: str) -> None:
        super().__init__(f"{what} at {pointer or 'the top'!r}: {remedy}")
        self.pointer = pointer
        self.what = what
        self.remedy = remedy


def check_json(
    value: Any, *, max_depth: int = MAX_DEPTH, max_bytes: int = MAX_BYTES, with_references: bool = False
) -> Any:
    """Return the value, or raise NotJsonError, which names the place as a JSON pointer.

    The size is that of compact UTF-8 without escapes, counted on the way, so that a huge value is refused early. Only
    values that rmhdag itself has made may be `with_references`.
    """
    if plain_text(value, max_depth, max_bytes, with_references=with_references) is None:
        measure(value, None, max_depth, max_bytes, 0, with_references=with_references)
    return value


def encode_json(value: Any) -> bytes:
    """The text of a value that `check_json` lets pass, written once."""
    text = plain_text(value, MAX_DEPTH, MAX_BYTES)
    return orjson.dumps(check_json(value)) if text is None else text


def may_hold_reserved_key(text: bytes) -> bool:
    """Whether the key is in JSON text that orjson wrote, or that PostgreSQL shows; without it there is none."""
    return _RESERVED in text


def has_long_digits(text: bytes) -> bool:
    """Whether there may be an integer of more than 64 bits in this JSON; without it there is none."""
    return _LONG_INTEGER in text.translate(_ZERO_FOR_DIGITS)


def json_pointer(*parts: str | int) -> str:
    """RFC 6901: `/nodes/a~1b/0`; the whole value is the empty text."""
    return "".join("/" + _escape(part) for part in parts)


def _escape(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def plain_text(value: Any, max_depth: int, max_bytes: int, *, with_references: bool = False) -> bytes | None:
    """The value as JSON if that much shows that it is good, twenty times as fast; None if it needs a closer look."""
    if _small_parts(value, min(max_depth, _SMALL_DEPTH), _SMALL_PARTS) < 0 and not _is_plain(
        value, max_depth, max_bytes
    ):
        return None
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    if not with_references and _RESERVED in text:
        return None
    # An exponent may be written with a sign or a zero more.
    if len(text) + text.count(b"e") > max_bytes or b"\\u0000" in text or has_long_digits(text):
        return None
    return text


def _small_parts(value: Any, depth_left: int, parts_left: int) -> int:
    """How many of the parts are left after this value; negative if it is unusual or too large for this.

    For the few values of an everyday task: `_is_plain` costs three times as much for them, and less per value for many.
    """
    kind = type(value)
    if kind is dict:
        if depth_left <= 0 or len(value) > parts_left:
            return -1
        for key, member in value.items():
            if type(key) is not str or len(key) > _SMALL_LETTERS:
                return -1
            if (parts_left := _small_parts(member, depth_left - 1, parts_left - 1)) < 0:
                return -1
        return parts_left
    if kind is list:
        if depth_left <= 0 or len(value) > parts_left:
            return -1
        for member in value:
            if (parts_left := _small_parts(member, depth_left - 1, parts_left - 1)) < 0:
                return -1
        return parts_left
    if kind is str:
        return parts_left if len(value) <= _SMALL_LETTERS else -1
    if kind is float:
        return parts_left if math.isfinite(value) else -1
    return parts_left if kind in _PLAIN else -1


def _is_plain(value: Any, max_depth: int, max_bytes: int) -> bool:
    """Whether it consists of nothing unusual, and of few enough parts to be written: some may stand in it often.

    Level by level, by functions in C: a step of the interpreter for each value would take most of a body's time.
    """
    level, parts, letters = [value], 0, 0
    for _ in range(max_depth + 1):
        kinds = set(map(type, level))
        if not kinds <= _PLAIN:
            return False
        # A sum is finite only if all of it is; one that grows beyond all numbers is looked at more closely.
        if float in kinds and not math.isfinite(sum(_of_kind(level, kinds, float))):
            return False
        if str in kinds:
            letters += sum(map(len, _of_kind(level, kinds, str)))
        objects = _of_kind(level, kinds, dict) if dict in kinds else []
        lists = _of_kind(level, kinds, list) if list in kinds else []
        keys = sum(map(len, objects))
        parts += 2 * keys + sum(map(len, lists))
        if parts > _MOST_PARTS:
            return False
        if keys:
            if not set(map(type, chain.from_iterable(objects))) <= {str}:
                return False
            letters += sum(map(len, chain.from_iterable(objects)))
        if letters > max_bytes:
            return False
        if not objects and not lists:
            return True
        level = list(chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(lists)))
    return False


def _of_kind(level: list[Any], kinds: set[type], kind: type) -> list[Any]:
    return [member for member in level if type(member) is kind] if len(kinds) > 1 else level


def count_members(value: Any) -> int:
    """Of all objects in a value that was read from JSON."""
    members, level = 0, [value]
    while level:
        objects = [member for member in level if type(member) is dict]
        lists = [member for member in level if type(member) is list]
        members += sum(map(len, objects))
        level = list(chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(lists)))
    return members


def measure(
    value: Any,
    where: _Place | None,
    depth_left: int,
    max_bytes: int,
    size: int,
    *,
    with_references: bool = False,
) -> int:
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
        if not with_references and isinstance(value, dict) and RESERVED_KEY in value:
            raise _refusal(where, f"the key {RESERVED_KEY!r}, which rmhdag reserves for itself", "rename the key")
        size += 2 + max(0, len(value) - 1)
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            if isinstance(value, dict):
                if not isinstance(key, str):
                    raise _refusal(where, f"a key of type {type(key).__name__}", "keys are text")
                size += 1 + _text_bytes(key, where)
            size = measure(member, (where, key), depth_left - 1, max_bytes, size, with_references=with_references)
    else:
        raise _refusal(where, f"a {type(value).__name__} is not JSON", "convert it to text, number, list or object")
    if size > max_bytes:
        raise _refusal(where, f"larger than {max_bytes} bytes up to here", "store it as a file and pass its address")
    return size


def _text_bytes(text: str, where: _Place | None) -> int:
    if "\0" in text:
        raise _refusal(where, "a NUL character, which PostgreSQL cannot store", "remove it")
    try:
        return 2 + len(text.encode())
    except UnicodeEncodeError as error:
        raise _refusal(where, "a lone surrogate, which is not Unicode text", "remove it") from error


def _refusal(where: _Place | None, what: str, remedy: str) -> NotJsonError:
    parts: list[str | int] = []
    while where is not None:
        where, key = where
        parts.append(key)
    return NotJsonError(json_pointer(*reversed(parts)), what, remedy)
