"""A workflow as DOT text, for Graphviz and the tools that read it."""

from __future__ import annotations

from rmhdag.picture.layout import Direction
from rmhdag.picture.node_looks import LOOKS
from rmhdag.picture.outline import Outline


def draw_dot(outline: Outline, *, direction: Direction = "down") -> str:
    lines = [
        f"digraph {quote(outline.title)} {{",
        f"    rankdir={'LR' if direction == 'right' else 'TB'};",
        '    node [fontname="Helvetica"];',
        '    edge [fontname="Helvetica"];',
    ]
    for caption in outline.captions:
        label = quote(caption.id, caption.detail)
        lines.append(f"    {quote(caption.id)} [shape={LOOKS[caption.type].dot}, label={label}];")
    for arrow in outline.arrows:
        marks = [f"label={quote(arrow.label)}"] if arrow.label else []
        marks += ["style=dashed"] if arrow.kind == "any_of" else []
        tail = f" [{', '.join(marks)}]" if marks else ""
        lines.append(f"    {quote(arrow.source)} -> {quote(arrow.target)}{tail};")
    return "\n".join([*lines, "}"]) + "\n"


def quote(*lines: str) -> str:
    """Each argument is a line; DOT has backslash escapes inside quotes, so backslashes of the text are doubled."""
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines if line) + '"'
