"""The width of text without a font: accurate to a few percent for pictures, exact in terminal columns."""

from __future__ import annotations

import unicodedata

NARROW = frozenset("fijlrt.,:;'|!()[]{} \"`-/\\I")
BROAD = frozenset("mwMW@%")
ELLIPSIS = "…"


def columns(text: str) -> int:
    """Terminal columns: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(character_columns, text))


def character_columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def picture_width(text: str, size: int, *, monospace: bool = False) -> int:
    """Width in points of `text` in a bold sans-serif or plain monospaced font of that size, even a broad one."""
    if monospace:
        return round(0.61 * size * columns(text))
    ems = 0.0
    for character in text:
        if character in NARROW:
            ems += 0.42
        elif character in BROAD or character_columns(character) == 2:
            ems += 1.0
        elif character.isupper():
            ems += 0.78
        else:
            ems += 0.67
    return round(ems * size)


def cut(text: str, limit: int) -> str:
    """At most `limit` columns, with an ellipsis if the text was cut."""
    if columns(text) <= limit:
        return text
    characters, used = [], 1
    for character in text:
        used += character_columns(character)
        if used > limit:
            break
        characters.append(character)
    return "".join(characters).rstrip() + ELLIPSIS


def visible(text: str) -> str:
    """Control and direction-changing characters, which could deceive a reader or a terminal, become a mark."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if unicodedata.category(character)[0] not in "CZ" or character == " " else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )
