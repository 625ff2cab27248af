"""Values and nodes as they are written, before anything is known to be right about them."""

from __future__ import annotations

from typing import Any

from rmhdag.models.states import NodeType
from rmhdag.workflow.problems import shorten

_TYPES = {kind.value: kind for kind in NodeType}


def describe(value: Any) -> str:
    """A value as messages name it."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'the text "{shorten(value)}"'
    if isinstance(value, (int, float)):
        return f"`{shorten(str(value))}`"
    return "a list" if isinstance(value, list) else "an object"


def node_type(node: Any) -> NodeType | None:
    """The type of a node, written or implied; None if it is unclear."""
    if not isinstance(node, dict):
        return None
    written = node.get("type")
    if written is None and "type" not in node:
        return NodeType.TASK if "handler" in node else None
    return _TYPES.get(written) if isinstance(written, str) else None
