"""The appearance of each type of node in every format: the only table of pictures with all types.

Colour-blind readers can tell the hues apart; each type has its own shape, icon and word as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.picture.text_width import visible

# A node as `normalise` returns it, or as its model dumps it.
FoldedNode = Mapping[str, Any]


class Border(NamedTuple):
    """Upper and lower corners, then the lines, then the place where an edge leaves."""

    corners: tuple[str, str] = ("┌┐", "└┘")
    across: str = "─"
    down: str = "│"
    port: str = "┬"


def no_detail(node: FoldedNode) -> str:
    return ""


def handler_of(node: FoldedNode) -> str:
    return str(node["task"]["handler"])


def question_of(node: FoldedNode) -> str:
    first: Mapping[str, Any] = next(iter(node["branches"]), {})
    return bare(node.get("subject") or first.get("condition") or "")


def aggregation_of(node: FoldedNode) -> str:
    how = node.get("aggregation", "collect")
    return f"{how} {one_line(node['field'])}" if node.get("field") else str(how)


def approvers_of(node: FoldedNode) -> str:
    return one_line(", ".join(node.get("approvers", ()))) or "waits for a decision"


def workflow_of(node: FoldedNode) -> str:
    version = node.get("workflow_version")
    return f"{node['workflow']} v{version}" if version else str(node["workflow"])


def bare(expression: str) -> str:
    """`{{ x }}` shows as `x`."""
    text = one_line(expression)
    if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1:
        return text[2:-2].strip()
    return text


def one_line(text: str) -> str:
    return visible(" ".join(text.split()))


class Look(NamedTuple):
    """`detail` is the second line of a caption: what runs, for whom it waits, what is compared.

    `light` and `dark` are the accents of the two themes, `icon` an SVG path of 16 × 16, `slope` what the sides of the
    shape take from the text. `ansi` is the terminal's colour, `mermaid` the opening and closing of its shape.
    """

    light: str
    dark: str
    dot: str
    mermaid: tuple[str, str]
    icon: str = ""
    ansi: str = ""
    border: Border = Border()
    slope: int = 0
    detail: Callable[[FoldedNode], str] = no_detail


DOUBLE = Border(("╔╗", "╚╝"), "═", "║", "╦")

LOOKS = {
    NodeType.START: Look("#3d4b61", "#c3cede", "circle", ("((", "))")),
    NodeType.END: Look("#3d4b61", "#c3cede", "doublecircle", ("((", "))")),
    NodeType.TASK: Look(
        "#1f67c4",
        "#6fb0ff",
        "box",
        ("[", "]"),
        icon="M2 4l4 4l-4 4M8 12h6",
        ansi="34",
        detail=handler_of,
    ),
    NodeType.CONDITIONAL: Look(
        "#a85a00",
        "#f0ac4b",
        "hexagon",
        ("{{", "}}"),
        icon="M8 1v5M8 6L3 10v4M8 6l5 4v4M1 12l2 2l2 -2M11 12l2 2l2 -2",
        ansi="33",
        border=Border(("╱╲", "╲╱")),
        slope=20,
        detail=question_of,
    ),
    NodeType.FAN_OUT: Look(
        "#6f45c9",
        "#b79cff",
        "box3d",
        ("[/", "\\]"),
        icon="M8 1v13M8 4L2 9v5M8 4l6 5v5",
        ansi="35",
        border=DOUBLE,
        detail=handler_of,
    ),
    NodeType.FAN_IN: Look(
        "#6f45c9",
        "#b79cff",
        "invtrapezium",
        ("[\\", "/]"),
        icon="M8 2v13M2 2v5l6 5l6 -5v-5",
        ansi="35",
        border=DOUBLE,
        detail=aggregation_of,
    ),
    NodeType.APPROVAL: Look(
        "#0b7a60",
        "#4fcfae",
        "oval",
        ("([", "])"),
        icon="M8 1.5a6.5 6.5 0 1 0 .01 0zM5 8.2l2.2 2.2l4 -4.4",
        ansi="32",
        border=Border(("╭╮", "╰╯")),
        slope=12,
        detail=approvers_of,
    ),
    NodeType.WORKFLOW: Look(
        "#b0357f",
        "#f28cc6",
        "component",
        ("[[", "]]"),
        icon="M1.5 1.5h6v6h-6zM8.5 8.5h6v6h-6zM4.5 7.5v4h4",
        ansi="36",
        border=Border(("┏┓", "┗┛"), "━", "┃", "┳"),
        detail=workflow_of,
    ),
}
