"""Invisible characters that can deceive readers: control and format characters, line separators.

A terminal executes some of them, others change the direction of text or hide parts of it.
"""

from __future__ import annotations

import re

# Unicode's categories Cc, Cf, Zl and Zp; a test compares them with Python's tables.
_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U00013438\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
# In texts of several lines, and in those of one.
DECEIVING = re.compile(f"[{_INVISIBLE}]")
DECEIVING_IN_LINE = re.compile(f"[{_INVISIBLE}\t\n]")


def refuse_deceiving(text: str) -> str:
    """For names, ids and labels that others will read."""
    return _refuse(DECEIVING_IN_LINE, text)


def refuse_deceiving_lines(text: str) -> str:
    """For what people write: it may have several lines."""
    return _refuse(DECEIVING, text)


def _refuse(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    if match is None:
        return text
    # Imported here: the command line needs only the patterns.
    from pydantic_core import PydanticCustomError

    raise PydanticCustomError(
        "control_character",
        "Text holds the invisible character {character} at position {position}: remove it",
        {"character": f"U+{ord(match[0]):04X}", "position": match.start() + 1},
    )
