"""A workflow as Mermaid text, which GitHub, GitLab and many editors render."""

from __future__ import annotations

from rmhdag.picture.layout import Direction
from rmhdag.picture.node_looks import LOOKS
from rmhdag.picture.outline import Caption, Outline


def draw_mermaid(outline: Outline, *, direction: Direction = "down") -> str:
    """Nodes are numbered, because a node may have a name that Mermaid reserves (`end`)."""
    names = {caption.id: f"n{number}" for number, caption in enumerate(outline.captions)}
    lines = [f"flowchart {'LR' if direction == 'right' else 'TD'}"]
    for caption in outline.captions:
        # The text between them is always quoted.
        opening, closing = LOOKS[caption.type].mermaid
        lines.append(f'    {names[caption.id]}{opening}"{text(caption)}"{closing}')
    for arrow in outline.arrows:
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
