"""Named SQL from the `.sql` files beside the modules that use it.

A query begins with `-- name: claim_tasks`; comments before the next name belong to it. Parameters are `%(name)s`.
Tables are named without their schema: every connection carries it in its search path.
"""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load_queries(module_file: str) -> dict[str, bytes]:
    """The queries of `x.sql` beside `x.py`, as bytes: the driver then treats them as constants."""
    text = Path(module_file).with_suffix(".sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {name: body.strip().encode() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
