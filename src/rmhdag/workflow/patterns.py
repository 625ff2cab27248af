"""Regular expressions of declarations: how large a pattern may be, and how much text it is tried on.

They run on an engine of linear time (Rust's, through Pydantic) without look-around and back-references. Even so, a
match takes the length of the text times the size of the pattern, at some 30 ns, and cannot be interrupted. So sizes
are estimated before a pattern is compiled, and the work of one check is counted.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from rmhdag.models.limits import PATTERN_CHARACTERS, PATTERN_SIZE, PATTERN_TEXT_CHARACTERS

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

MAX_NESTING = 20
# Patterns of one check, in size times characters: 0.6 s at the very worst.
MAX_WORK = 20_000_000
# A pattern up to this size has so few states that all are cached: 5 ns per character, whatever its size.
_SMALL_SIZE = 10
# Compiling a pattern takes as long as matching it against this many characters.
_COMPILING_CHARACTERS = 1_000
# `\w` and similar classes are hundreds of ranges of Unicode.
_UNICODE_CLASS_SIZE = 10
_NEGATED_CLASS_SIZE = 2

_COUNT = re.compile(r"\{ *(\d{1,9})? *(,)? *(\d{1,9})? *\}", re.ASCII)
_FLAGS = re.compile(r"\?(?:P?<\w+>|[a-zA-Z-]*)", re.ASCII)
_ESCAPE = re.compile(r"\\(?:[pPxuU](?:\{[^}]*\}|.)|.)", re.DOTALL)
_UNICODE_ESCAPES = frozenset("wWdDsSpPbB")

_NO_PATTERN = "is not a regular expression, or uses look-around or back-references"


class TooExpensive(Exception):
    """Matching the patterns of one check takes too long."""


class OutOfWork(TooExpensive):
    """Each pattern could be matched by itself, but there are too many of them."""


class _Malformed(Exception):
    """The pattern cannot be parsed; the message says why."""

    def __init__(self, reason: str = _NO_PATTERN) -> None:
        super().__init__(reason)


class PatternWork:
    """The remaining budget of one check for patterns."""

    def __init__(self, limit: int = MAX_WORK) -> None:
        self._left = limit
        self._seen: set[str] = set()

    def matches(self, pattern: str, text: str) -> bool:
        """Raises TooExpensive, with the reason."""
        size = size_of(pattern)
        if size is None or size > PATTERN_SIZE:
            raise TooExpensive("its pattern is too complex to be tried")
        if len(text) > PATTERN_TEXT_CHARACTERS:
            raise TooExpensive(
                f"it has {len(text):,} characters, and patterns are tried on at most {PATTERN_TEXT_CHARACTERS:,}"
            )
        if pattern not in self._seen:
            self._seen.add(pattern)
            self._left -= size * _COMPILING_CHARACTERS
        self._left -= len(text) * (1 if size <= _SMALL_SIZE else size)
        if self._left < 0:
            raise OutOfWork("trying the patterns on all these texts takes too long")
        return _matcher(pattern).isinstance_python(text)


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern cannot be used; None if it can."""
    from pydantic_core import SchemaError

    if len(pattern) > PATTERN_CHARACTERS:
        return f"has more than {PATTERN_CHARACTERS} characters"
    try:
        size = _Reader(pattern).read()
        if size > PATTERN_SIZE:
            return f"is too complex: written out, it has {size:,} parts, and at most {PATTERN_SIZE:,} are allowed"
        _matcher(pattern)
    except _Malformed as error:
        return str(error)
    except SchemaError:
        return _NO_PATTERN
    return None


@lru_cache(maxsize=512)
def _matcher(pattern: str) -> SchemaValidator:
    # Imported here: few workflows have patterns, and Pydantic takes a third of the start-up time.
    from pydantic_core import SchemaValidator, core_schema

    return SchemaValidator(core_schema.str_schema(pattern=pattern))


@lru_cache(maxsize=4096)
def size_of(pattern: str) -> int | None:
    """The number of parts of the pattern with counted repetitions expanded; None if it cannot be parsed.

    An upper bound: simplifications by the engine are ignored.
    """
    if len(pattern) > PATTERN_CHARACTERS:
        return None
    try:
        return _Reader(pattern).read()
    except _Malformed:
        return None


class _Reader:
    """`sizes` has one entry per open group: its size so far. `last` is the size of what a repetition would repeat."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> int:
        sizes, last = [0], 0
        while self._at < len(self._pattern):
            letter = self._pattern[self._at]
            if letter == "(":
                self._at += 1
                self._skip_flags()
                sizes.append(0)
                last = 0
                if len(sizes) > MAX_NESTING:
                    raise _Malformed(f"has groups nested deeper than {MAX_NESTING} levels")
                continue
            if letter == ")":
                if len(sizes) == 1:
                    raise _Malformed
                self._at += 1
                last = sizes.pop() + 1
            elif letter in "*+?":
                self._at += 1
                continue
            elif letter == "{":
                times = self._count()
                sizes[-1] += last * (times - 1)
                last *= times
                continue
            else:
                last = self._atom(letter)
            sizes[-1] += last
        if len(sizes) != 1:
            raise _Malformed
        return sizes[0]

    def _skip_flags(self) -> None:
        flags = _FLAGS.match(self._pattern, self._at)
        if flags is None:
            return
        if "<" not in flags[0] and "x" in flags[0].partition("-")[0]:
            raise _Malformed("uses the flag `x`, which is not allowed here")
        self._at = flags.end()
        if self._pattern.startswith(":", self._at):
            self._at += 1

    def _count(self) -> int:
        match = _COUNT.match(self._pattern, self._at)
        if match is None:
            raise _Malformed
        self._at = match.end()
        least, comma, most = match.groups()
        if comma and most is None:
            return int(least or 0) + 1
        return max(int(least or 0), int(most or 0), 1)

    def _atom(self, letter: str) -> int:
        if letter == "[":
            return self._class()
        if letter == "\\":
            return self._escape()
        self._at += 1
        return _NEGATED_CLASS_SIZE if letter == "." else 1

    def _escape(self) -> int:
        match = _ESCAPE.match(self._pattern, self._at)
        if match is None:
            raise _Malformed
        self._at = match.end()
        return _UNICODE_CLASS_SIZE if match[0][1] in _UNICODE_ESCAPES else 1

    def _class(self) -> int:
        """A class of characters; it may contain nested classes, and begin with the character that ends it."""
        size, depth = 1, 0
        while self._at < len(self._pattern):
            letter = self._pattern[self._at]
            if letter == "\\":
                size = max(size, self._escape())
                continue
            self._at += 1
            if letter == "[":
                depth += 1
                if self._pattern.startswith("^", self._at):
                    self._at += 1
                    size = max(size, _NEGATED_CLASS_SIZE)
                if self._pattern.startswith("]", self._at):
                    self._at += 1
            elif letter == "]":
                depth -= 1
                if depth == 0:
                    return size
            elif not letter.isascii():
                size = max(size, _NEGATED_CLASS_SIZE)
        raise _Malformed
