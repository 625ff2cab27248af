"""The position of each key and value of a parsed YAML text, down to a character inside a scalar."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

Path = tuple[str | int, ...]
Mark = tuple[int, int]  # line and column, both from 1

_SPACE = " \t\n\r"
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class Place(NamedTuple):
    """`key` is the position of the key (of the value for list items); the span is kept only for scalars."""

    key: Mark
    value: Mark
    span: tuple[int, int] | None = None
    style: str = ""


class SourceMap:
    """Empty for workflows that did not come from text; then every place is 0:0 and only pointers help."""

    def __init__(self) -> None:
        self.text = ""
        self._places: dict[Path, Place] = {}

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def __contains__(self, path: Path) -> bool:
        return path in self._places

    def add(self, path: Path, place: Place) -> None:
        self._places[path] = place

    def value_at(self, path: Sequence[str | int]) -> Mark:
        """The position of the value at this path, or of the nearest enclosing value in the text."""
        place = self._nearest(tuple(path))
        return place.value if place else (0, 0)

    def key_at(self, path: Sequence[str | int]) -> Mark:
        place = self._nearest(tuple(path))
        return place.key if place else (0, 0)

    def _nearest(self, path: Path) -> Place | None:
        while path not in self._places:
            if not path:
                return None
            path = path[:-1]
        return self._places[path]

    def inside_scalar(self, path: Sequence[str | int], value: str, line: int, column: int) -> Mark:
        """The position in the file of a line and column inside a scalar's value, whatever its quoting."""
        place = self._places.get(tuple(path))
        if place is None or place.span is None:
            return self.value_at(path)
        offset = _offset_of(value, line, column)
        index = _align(self.text, *place.span, place.style, value, offset)
        return place.value if index is None else self.mark_of(index)

    def mark_of(self, index: int) -> Mark:
        line = bisect_right(self._line_starts, index)
        return line, index - self._line_starts[line - 1] + 1


def _offset_of(value: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = value.find("\n", start) + 1
    return start + column - 1


def _align(text: str, start: int, end: int, style: str, value: str, offset: int) -> int | None:
    """Walk through raw text and value in parallel; the raw index of the offset, or None if they do not match."""
    raw = start
    if style in ("|", ">"):
        raw = text.find("\n", start, end) + 1
    elif style in ("'", '"'):
        raw += 1
    position = 0
    while True:
        if raw >= end or position > len(value):
            return None
        expected = value[position] if position < len(value) else ""
        character = text[raw]
        if character == "\\" and style == '"':
            if text[raw + 1] in "\r\n":
                raw += 2  # an escaped line break is absent from the value
                continue
            step = 2 + _HEX_ESCAPES.get(text[raw + 1], 0)
        elif character == expected:
            step = 2 if character == "'" and style == "'" else 1
        elif character in _SPACE:
            raw += 1  # indentation, or the rest of a folded break
            if expected and expected in " \n" and character == "\n" and position < offset:
                position += 1
            continue
        elif expected and expected in _SPACE:
            position += 1
            continue
        else:
            return None
        if position == offset:
            return raw
        raw += step
        position += 1
