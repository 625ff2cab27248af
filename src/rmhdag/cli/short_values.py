"""Outputs on a screen: each value in one line, whatever it holds. `--json` shows all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rmhdag.cli.output import show_json
from rmhdag.cli.tables import lay_out

# Longer texts and nested values of outputs are left to --json: a STAC item alone has some 200 lines.
MOST_CHARACTERS = 80


def lay_out_values(outputs: Mapping[str, Any]) -> str:
    table = lay_out(("OUTPUT", "VALUE"), [(name, in_short(value)) for name, value in outputs.items()])
    return table + ("(--json shows outputs in full)\n" if any(map(is_long, outputs.values())) else "")


def is_long(value: Any) -> bool:
    return len(written(value)) > MOST_CHARACTERS


def in_short(value: Any) -> str:
    """A value in one line; of one that is too long, what kind of thing it is."""
    if not is_long(value):
        return written(value)
    if isinstance(value, dict):
        named = [f"{name} {value[name]}" for name in ("type", "id", "path", "href") if isinstance(value.get(name), str)]
        members = "1 member" if len(value) == 1 else f"{len(value)} members"
        return cut_short(", ".join([*named, f"{{{members}}}"]))
    if isinstance(value, list):
        return f"[{len(value)} items]"
    return cut_short(written(value))


def written(value: Any) -> str:
    return value if isinstance(value, str) else show_json(value)


def cut_short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
