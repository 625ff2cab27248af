"""A workflow as Mermaid text, which GitHub, GitLab and many editors draw by themselves."""

from __future__ import annotations

from rmhdag.models.states import NodeType
from rmhdag.workflow.layout import Direction
from rmhdag.workflow.outline import Caption, Outline

# Opening and closing of each kind's shape; the text between them is always quoted.
SHAPES = {
    NodeType.START: ("((", "))"),
    NodeType.END: ("((", "))"),
    NodeType.TASK: ("[", "]"),
    NodeType.CONDITIONAL: ("{{", "}}"),
    NodeType.FAN_OUT: ("[/", "\\]"),
    NodeType.FAN_IN: ("[\\", "/]"),
    NodeType.APPROVAL: ("([", "])"),
    NodeType.WORKFLOW: ("[[", "]]"),
}


def draw_mermaid(shown: Outline, *, direction: Direction = "down") -> str:
    """Nodes are numbered, because a node may have a name that Mermaid reserves (`end`)."""
    names = {caption.id: f"n{number}" for number, caption in enumerate(shown.captions)}
    lines = [f"flowchart {'LR' if direction == 'right' else 'TD'}"]
    for caption in shown.captions:
        opening, closing = SHAPES[caption.type]
        lines.append(f'    {names[caption.id]}{opening}"{text(caption)}"{closing}')
    for arrow in shown.arrows:
        sign = "-.->" if arrow.kind == "any_of" else "-->"
        label = f'|"{escape(arrow.label)}"|' if arrow.label else ""
        lines.append(f"    {names[arrow.source]} {sign}{label} {names[arrow.target]}")
    return "\n".join(lines) + "\n"


def text(caption: Caption) -> str:
    if not caption.detail:
        return escape(caption.id)
    return f"{escape(caption.id)}<br/>{escape(caption.detail)}"


def escape(words: str) -> str:
    """Mermaid's own entities; everything that could end the quotes or start HTML, Markdown or another entity."""
    return "".join(f"#{ord(char)};" if char in '"#<>&`*\\;{}|' else char for char in words)
