"""Text to tokens, as Jinja2 divides it: names, numbers, quoted texts, operators, and the closing braces.

A token's value is only worked out when the parser comes to it, so that the first mistake in the text is the one told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["name", "integer", "float", "string", "operator", "closing"]

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_TOKEN = re.compile(
    rf"""
      (?P<space> \s+ )
    | (?P<float> (?<!\.) {_DIGITS} (?: (?: \.{_DIGITS} )? e[+-]?{_DIGITS} | \.{_DIGITS} ) )
    | (?P<integer> 0b(?:_?[01])+ | 0o(?:_?[0-7])+ | 0x(?:_?[0-9a-f])+ | [1-9](?:_?[0-9])* | 0(?:_?0)* )
    | (?P<name> \w+ )
    | (?P<string> ' (?: [^'\\] | \\. )* ' | " (?: [^"\\] | \\. )* " )
    | (?P<operator> // | \*\* | [=!<>]= | [-+/*%~\[\](){{}}<>=.:|,;] )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_CLOSING = re.compile(r"-?\}\}")
_PARTNER = {"(": ")", "[": "]", "{": "}"}

_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|N\{(?P<N>[^}]+)\}|(?P<one>.))",
    re.DOTALL,
)
_ONE_CHARACTER = dict(zip("\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v", strict=True)) | {"\n": ""}
_BROKEN = {
    "x": r"truncated \xXX escape",
    "u": r"truncated \uXXXX escape",
    "U": r"truncated \UXXXXXXXX escape",
    "N": r"malformed \N character escape",
}


class SyntaxFault(Exception):
    """`offset` is where, in what the tokens' offsets count."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class RawToken(NamedTuple):
    """As written."""

    offset: int
    kind: Kind
    text: str


def read_tokens(source: str) -> Iterator[RawToken]:
    """Up to the end; closing braces are only seen outside of brackets, so that `{'a': {}}` is an object."""
    position = 0
    expected: list[str] = []
    while position < len(source):
        closing = None if expected else _CLOSING.match(source, position)
        if closing is not None:
            yield RawToken(position, "closing", closing[0])
            position = closing.end()
            continue
        found = _TOKEN.match(source, position)
        kind = found.lastgroup if found else None
        end = found.end() if found else position
        if kind in (None, "name"):
            end = _end_of_name(source, end)
        if end == position:
            raise SyntaxFault(f"unexpected char {source[position]!r}", position)
        text = source[position:end]
        if kind == "operator":
            _balance(text, expected, position)
        if kind != "space":
            yield RawToken(position, _KINDS.get(kind or "name", "name"), text)
        position = end


_KINDS: dict[str, Kind] = {"integer": "integer", "float": "float", "string": "string", "operator": "operator"}


def _end_of_name(source: str, position: int) -> int:
    """Accents that follow their letter belong to a name, though they are no letters to a regular expression."""
    while position < len(source) and (source[position].isalnum() or f"a{source[position]}".isidentifier()):
        position += 1
    return position


def _balance(symbol: str, expected: list[str], position: int) -> None:
    if symbol in _PARTNER:
        expected.append(_PARTNER[symbol])
    elif symbol in (")", "]", "}"):
        if not expected:
            raise SyntaxFault(f"unexpected '{symbol}'", position)
        wanted = expected.pop()
        if wanted != symbol:
            raise SyntaxFault(f"unexpected '{symbol}', expected '{wanted}'", position)


def value_of(token: RawToken) -> str | int | float:
    """What is meant by it; for names and operators their text."""
    match token.kind:
        case "integer":
            return int(token.text.replace("_", ""), 0)
        case "float":
            return float(token.text.replace("_", ""))
        case "string":
            return _unescaped(token)
        case "name" if not token.text.isidentifier():
            raise SyntaxFault("Invalid character in identifier", token.offset)
        case _:
            return token.text


def _unescaped(token: RawToken) -> str:
    """Python's escapes; a backslash before anything else stands for itself."""

    def replace(found: re.Match[str]) -> str:
        group = found.lastgroup or ""
        written = found[group]
        if group == "octal":
            return chr(int(written, 8))
        if group == "N":
            return _named(written, token.offset)
        if group == "one":
            if written in _BROKEN:
                raise SyntaxFault(_BROKEN[written], token.offset)
            return _ONE_CHARACTER.get(written, found[0])
        code = int(written, 16)
        if code > 0x10FFFF:
            raise SyntaxFault("illegal Unicode character", token.offset)
        return chr(code)

    return _ESCAPE.sub(replace, re.sub(r"\r\n?", "\n", token.text[1:-1]))


def _named(name: str, offset: int) -> str:
    import unicodedata

    try:
        character = unicodedata.lookup(name)
    except KeyError:
        character = ""
    if len(character) != 1:
        raise SyntaxFault("unknown Unicode character name", offset)
    return character
