"""What must never be shown, found by its looks: whoever writes a line need not think of it.

Rather too much is masked than too little. All patterns take time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

MASK = "***"
MOST_DEPTH = 8
# Left as they are; everything else that is not a text, list or mapping is shown as text.
PLAIN = (bool, int, float, type(None))

_NAMES = (
    r"passw(?:or)?d|passphrase|secret|token|authorization|credential|api[_-]?key|account[_-]?key"
    r"|sharedaccesskey|sharedaccesssignature|instrumentation[_-]?key|private[_-]?key|connection[_-]?string"
)
_NAMED = re.compile(_NAMES, re.IGNORECASE)
# In a text within a text quotes come with backslashes.
_QUOTED = r"""\\*"(?:[^"\\]|\\.)*"|\\*'(?:[^'\\]|\\.)*'"""
_PATTERNS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # Our keys: the id in the middle is no secret and tells which key it was.
    (re.compile(r"rmhdag_([0-9a-f]{16})_[A-Za-z0-9_-]+"), rf"rmhdag_\1_{MASK}"),
    (re.compile(r"(?<=://)([^/@\s:]*):[^/\s]*@"), rf"\1:{MASK}@"),
    (re.compile(r"\beyJ[\w-]{4,}\.[\w-]+(?:\.[\w-]*)?"), MASK),
    (re.compile(r"\bwhsec_[A-Za-z0-9+/=_-]+"), f"whsec_{MASK}"),
    (re.compile(r"(?i)\bbearer\s+[^\s\"',;]+"), f"Bearer {MASK}"),
    (
        re.compile(
            r"(?i)(authorization[\\\"']{0,8}\s{0,8}[:=,]\s{0,8}[\\\"']{0,8}(?:basic|digest|negotiate)\s+)[^\s\"',;]+"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)([?&;]sig=)[^&\s]+"), rf"\1{MASK}"),
    (
        re.compile(
            rf"(?i)({_NAMES})([\w-]{{0,40}}[\\\"']{{0,8}}\s{{0,8}}(?:=>|=|:)\s{{0,8}})(?!\s)(?:{_QUOTED}|(?:\\.|\S)+)"
        ),
        lambda found: found[0] if found[0].endswith(MASK) else f"{found[1]}{found[2]}{MASK}",
    ),
]


def looks_secret(name: str) -> bool:
    """Whether something of this name should not be shown."""
    return _NAMED.search(name) is not None


def mask_text(text: str) -> str:
    """The same text without what looks like a secret."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def mask_value(value: Any, name: str = "", depth: int = 0) -> Any:
    """A value as it may be logged: texts masked, also inside; anything with the name of a secret not shown at all."""
    if value is None:
        return None
    if name and _NAMED.search(name):
        return MASK
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, PLAIN):
        return value
    if depth >= MOST_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {
            mask_text(text := _as_text(key)): mask_value(inner, text, depth + 1) for key, inner in list(value.items())
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [mask_value(inner, "", depth + 1) for inner in value]
    return mask_text(_as_text(value))


def _as_text(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
