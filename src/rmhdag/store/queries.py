"""Named SQL from the `.sql` files beside the modules that use it.

A query begins with `-- name: claim_tasks`; comments before the next name belong to it. Parameters are `%(name)s`.
What several queries of a file share begins with `-- part: room`, and stands where they say `-- include: room`.
Tables are named without their schema: every connection carries it in its search path.
"""

from __future__ import annotations

import re
from pathlib import Path

_BEGINNING = re.compile(r"^-- (name|part): (\w+)\s*$", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


def load_queries(module_file: str) -> dict[str, bytes]:
    """The queries of `x.sql` beside `x.py`, as bytes: the driver then treats them as constants."""
    text = Path(module_file).with_suffix(".sql").read_text(encoding="utf-8")
    pieces = _BEGINNING.split(text)
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for kind, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        found[kind][name] = body.strip()
    parts = found["part"]
    return {
        name: _INCLUDE.sub(lambda include: parts[include[1]], body).encode() for name, body in found["name"].items()
    }
