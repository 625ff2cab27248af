"""Where words go: data to stdout, messages to stderr; colour only for people who look at it.

Whatever is written passes `show`: values of jobs and workers are other people's words, and a terminal would obey what
is hidden in them. Our own styles and cursor movements begin with ESCAPE, which nobody else can write.

A reader that has gone away (`rmhdag graph … | head`) is no error: the rest of the output is dropped, and the command
ends with the exit code that it has earned.
"""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import datetime
from typing import Any, TextIO

from rmhdag.models.plain_text import DECEIVING

# Becomes ESC when it is written. It is new in each process, so that no value that was stored before can hold it.
ESCAPE = f"\x1b{os.urandom(8).hex()}"
MARK = "\N{REPLACEMENT CHARACTER}"
_state = {"colour": True}
_warned: set[str] = set()


def forbid_colour() -> None:
    _state["colour"] = False


def has_colour(stream: TextIO) -> bool:
    """https://no-color.org, `--no-color`, dumb terminals, and everything that is not a terminal."""
    if not _state["colour"] or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, style: str, stream: TextIO) -> str:
    """`style` is an SGR code: 1 bold, 2 dim, 31 red, 32 green, 33 yellow, 34 blue, 36 cyan."""
    return f"{ESCAPE}[{style}m{text}{ESCAPE}[0m" if style and has_colour(stream) else text


def show(text: str) -> str:
    """The text as a terminal may have it: what could move its cursor or deceive its reader becomes a mark."""
    return "\x1b".join(DECEIVING.sub(MARK, part) for part in text.split(ESCAPE))


def show_json(value: Any, indent: int | None = None) -> str:
    """JSON that means the same and has nothing in it that a terminal obeys."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=as_json_value)
    return DECEIVING.sub(lambda match: json.dumps(match[0])[1:-1], text)


def emit(text: str) -> None:
    """Data. `text` brings its own line ends."""
    write(sys.stdout, text)


def emit_json(value: Any) -> None:
    """One object; indented for people, one line for programs."""
    indent = 2 if sys.stdout.isatty() else None
    emit(show_json(value, indent) + "\n")


def as_json_value(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def say(text: str) -> None:
    """A message for people, one line or several."""
    write(sys.stderr, text + "\n")


def warn(text: str) -> None:
    """Once per command, however often it is found out."""
    if text not in _warned:
        _warned.add(text)
        say(f"{paint('warning:', '33', sys.stderr)} {text}")


def forget_warnings() -> None:
    _warned.clear()


def write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(show(text).encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # What the interpreter would flush at the end goes nowhere too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def mask_url(url: str) -> str:
    """The same text with no password in it, neither before an @ nor as a parameter."""
    url = re.sub(r"(?<=://)([^/@\s]*?):[^/\s]*@", r"\1:***@", url)
    url = re.sub(r"(?i)(\b(?:password|sslpassword)=)[^&\s]*", r"\1***", url)
    return re.sub(r"(?i)([?&](?:sig|code|(?:\w*[-_])?(?:token|key|secret))=)[^&\s]*", r"\1***", url)
