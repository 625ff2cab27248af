"""Whether a file has the shape of the language, each field by itself.

The JSON Schema says whether, the models say what is wrong; they are imported only for files that do not fit.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from rmhdag.models.limits import MAX_NODES as MAX_NODES
from rmhdag.models.states import NodeType
from rmhdag.workflow.problems import shorten
from rmhdag.workflow.report import Report
from rmhdag.workflow.shape import Schema, fits
from rmhdag.workflow.source_map import Path

_TYPES = {kind.value: kind for kind in NodeType}


@cache
def shipped_schema() -> Schema:
    """What `language_schema` makes of the models; a test keeps the file current."""
    schema: Schema = json.loads(FilePath(__file__).with_name("workflow.schema.json").read_bytes())
    return schema


def check_structure(data: dict[str, Any], report: Report) -> None:
    """Everything that can be said of each field by itself."""
    if not fits(shipped_schema(), data, shipped_schema()):
        from rmhdag.workflow.structure_faults import report_structure

        report_structure(data, report)


def has_input_structure(declared: dict[str, Any]) -> bool:
    """Whether one declaration has the right shape. Inside another, unlike in the schema, a field may be null."""
    if fits({"$ref": "#/$defs/WrittenInput"}, declared, shipped_schema()):
        return True
    from rmhdag.workflow.structure_faults import is_input

    return is_input(declared)


def report_input_structure(declared: dict[str, Any], path: Path, report: Report) -> None:
    """What is wrong with a declaration inside another."""
    from rmhdag.workflow.structure_faults import report_input

    report_input(declared, path, report)


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
    """The type of a node as written, a left-out one included; None if it cannot be known."""
    if not isinstance(node, dict):
        return None
    written = node.get("type")
    if written is None and "type" not in node:
        return NodeType.TASK if "handler" in node else None
    return _TYPES.get(written) if isinstance(written, str) else None
