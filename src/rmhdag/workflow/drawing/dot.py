"""A workflow as DOT text, for Graphviz and the tools that read it."""

from __future__ import annotations

from rmhdag.models.states import NodeType
from rmhdag.workflow.layout import Direction
from rmhdag.workflow.outline import Outline

SHAPES = {
    NodeType.START: "circle",
    NodeType.END: "doublecircle",
    NodeType.TASK: "box",
    NodeType.CONDITIONAL: "hexagon",
    NodeType.FAN_OUT: "box3d",
    NodeType.FAN_IN: "invtrapezium",
    NodeType.APPROVAL: "oval",
    NodeType.WORKFLOW: "component",
}


def draw_dot(shown: Outline, *, direction: Direction = "down") -> str:
    lines = [
        f"digraph {quote(shown.title)} {{",
        f"    rankdir={'LR' if direction == 'right' else 'TB'};",
        '    node [fontname="Helvetica"];',
        '    edge [fontname="Helvetica"];',
    ]
    for caption in shown.captions:
        label = quote(caption.id, caption.detail)
        lines.append(f"    {quote(caption.id)} [shape={SHAPES[caption.type]}, label={label}];")
    for arrow in shown.arrows:
        marks = [f"label={quote(arrow.label)}"] if arrow.label else []
        marks += ["style=dashed"] if arrow.kind == "any_of" else []
        tail = f" [{', '.join(marks)}]" if marks else ""
        lines.append(f"    {quote(arrow.source)} -> {quote(arrow.target)}{tail};")
    return "\n".join([*lines, "}"]) + "\n"


def quote(*lines: str) -> str:
    """Each argument is a line; DOT knows backslash escapes inside quotes, so those of the text are doubled."""
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines if line) + '"'
