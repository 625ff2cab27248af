"""Finds secrets by their appearance and masks them, so that writers of log lines need not think of it.

It rather masks too much than too little. All patterns take time proportional to the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

MASK = "***"
MOST_DEPTH = 8
# Kept unchanged; everything else that is not a text, list or mapping is shown as text.
PLAIN = (bool, int, float, type(None))
# Of a secret this long, a beginning or an end is hidden too: libraries quote long values without their middle.
PART_CHARACTERS = 12
# The secrets that the code which runs now was given, in the forms of `hidden_forms`.
known_secrets: ContextVar[tuple[str, ...]] = ContextVar("known_secrets", default=())

_NAMES = (
    r"passw(?:or)?d|passphrase|secret|token|authorization|credential|api[_-]?key|account[_-]?key"
    r"|sharedaccesskey|sharedaccesssignature|instrumentation[_-]?key|private[_-]?key|connection[_-]?string"
)
_NAMED = re.compile(_NAMES, re.IGNORECASE)
# In a text within a text, quotes are escaped by backslashes. A quote that is never closed extends to the end: otherwise
# the failed search would be repeated from each following quote.
_QUOTED = r"""\\*"(?:[^"\\]|\\[\s\S])*+(?:"|\\?\Z)|\\*'(?:[^'\\]|\\[\s\S])*+(?:'|\\?\Z)"""
# Words with dots, each examined once; and where in such a word a token may begin.
_DOTTED = re.compile(r"(?<![\w-])[\w-]++(?:\.[\w-]*+)++")
_TOKEN_START = re.compile(r"(?:^|(?<=-))eyJ(?=[\w-]{4})")
_PATTERNS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # Our keys: the id in the middle is not secret and identifies the key.
    (re.compile(r"rmhdag_([0-9a-f]{16})_[A-Za-z0-9_-]+"), rf"rmhdag_\1_{MASK}"),
    (re.compile(r"rmhdag-local-[A-Za-z0-9_-]+"), f"rmhdag-local-{MASK}"),
    (re.compile(r"(?<=://)([^/@\s:]*):[^/\s]*@"), rf"\1:{MASK}@"),
    (_DOTTED, lambda match: _without_tokens(match[0])),
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
        lambda match: match[0] if match[0].endswith(MASK) else f"{match[1]}{match[2]}{MASK}",
    ),
]


def looks_secret(name: str) -> bool:
    """Whether a value with this name should be hidden."""
    return _NAMED.search(name) is not None


def hidden_forms(values: Iterable[str]) -> tuple[str, ...]:
    """How secrets may appear in texts, longest first: as they are, quoted by Python, in part."""
    forms: set[str] = set()
    for value in values:
        forms.update((value, repr(value)[1:-1]))
        if len(value) >= 2 * PART_CHARACTERS:
            forms.update((value[:PART_CHARACTERS], value[-PART_CHARACTERS:]))
    return tuple(sorted(forms, key=len, reverse=True))


def hide(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        text = text.replace(form, MASK)
    return text


def mask_text(text: str) -> str:
    """The text with everything masked that looks like a secret, or is known as one."""
    text = hide(text, known_secrets.get())
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _window(text: str, most: int) -> str:
    """The text itself, or its beginning, which ends before a known secret rather than within one."""
    if len(text) <= most:
        return text
    forms = known_secrets.get()
    end = most
    while (start := min((_astride(text, form, end) for form in forms), default=end)) < end:
        end = start
    return hide(text[:end], forms) + (MASK if end < most else "")


def _astride(text: str, form: str, end: int) -> int:
    """Where the form begins, if a cut at the end would go through it; otherwise the end."""
    start = text.find(form, max(end - len(form) + 1, 0), end + len(form) - 1)
    return end if start < 0 else start


def unfinished(text: str, forms: Iterable[str]) -> int:
    """How many letters at the end of the text may be the beginning of a secret."""
    return max((_overlap(text, form) for form in forms), default=0)


def _overlap(text: str, form: str) -> int:
    most = min(len(form) - 1, len(text))
    return next((length for length in range(most, 0, -1) if text.endswith(form[:length])), 0)


def mask_and_cut(text: str, most: int) -> str:
    """The first letters of the masked text, in time that does not depend on what follows them."""
    head = _window(text, 4 * most)
    if head is not text:
        end = max(head.rfind(blank, most) for blank in " \n\t")
        # A secret that is cut off is not recognised any more: it is dropped, or ended like the password of a URL.
        head = head[:end] if end > 0 else f"{head}@"
    return mask_text(head)[:most]


def _without_tokens(word: str) -> str:
    """JSON Web Tokens: a header that begins with `{"` in base64, a dot, the claims, and perhaps a signature."""
    if "eyJ" not in word:
        return word
    parts, masked, place = word.split("."), [], 0
    while place < len(parts):
        start = _TOKEN_START.search(parts[place]) if place + 1 < len(parts) and parts[place + 1] else None
        masked.append(parts[place] if start is None else parts[place][: start.start()] + MASK)
        place += 1 if start is None else 3
    return ".".join(masked)


def mask_value(value: Any, name: str = "", depth: int = 0) -> Any:
    """A value as it may be logged: texts are masked at any depth; values with the name of a secret are hidden."""
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
