"""A workflow as a list, one node per line in the order in which it may run: for graphs too large for boxes."""

from __future__ import annotations

import textwrap

from rmhdag.picture.layout_order import Link, rank
from rmhdag.picture.outline import Arrow, Outline
from rmhdag.picture.text_width import columns, cut


def draw_list(outline: Outline, *, width: int, ascii_only: bool = False) -> str:
    index = {caption.id: number for number, caption in enumerate(outline.captions)}
    layer_of = rank(len(index), [Link(index[arrow.source], index[arrow.target]) for arrow in outline.arrows])
    follows: dict[str, list[Arrow]] = {}
    for arrow in outline.arrows:
        follows.setdefault(arrow.source, []).append(arrow)
    rows = []
    for number in sorted(index.values(), key=lambda number: layer_of[number]):
        caption = outline.captions[number]
        targets = ", ".join(map(name_target, follows.get(caption.id, [])))
        rows.append((caption.id, caption.type.replace("_", "-"), cut(caption.detail, 30), targets))
    widths = [max(columns(row[column]) for row in rows) for column in range(3)]
    sign = "->" if ascii_only else "→"
    lines: list[str] = []
    for *cells, targets in rows:
        start = "  ".join(cell + " " * (size - columns(cell)) for cell, size in zip(cells, widths, strict=True))
        if not targets:
            lines.append(start.rstrip())
            continue
        start += f"  {sign} "
        room = max(width - columns(start), 24)
        first, *rest = textwrap.wrap(targets, room, break_long_words=False, break_on_hyphens=False)
        lines += [start + first, *(" " * columns(start) + line for line in rest)]
    return "\n".join(lines) + "\n"


def name_target(arrow: Arrow) -> str:
    return f"{arrow.target} ({arrow.label})" if arrow.label else arrow.target
