"""A workflow as boxes and lines of characters within the width of the terminal; as a list if boxes do not fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.picture.canvas import Canvas
from rmhdag.picture.channel import Net, assign_tracks
from rmhdag.picture.layout import Grid, Metrics, make_grid
from rmhdag.picture.layout_order import Link, Size
from rmhdag.picture.listing import draw_list
from rmhdag.picture.node_looks import LOOKS
from rmhdag.picture.outline import Caption, Outline
from rmhdag.picture.text_width import columns, cut

MAX_BOXES = 200  # more would scroll for minutes; the list has the same content
DIM = "2"
BOLD = "1"


class Fit(NamedTuple):
    """How much text is shown and how close boxes are; tried from generous to tight."""

    text: int
    detail: bool
    gap: int


FITS = (Fit(40, True, 4), Fit(28, True, 3), Fit(20, True, 2), Fit(16, True, 1), Fit(12, False, 1))


def draw_terminal(outline: Outline, *, width: int, colour: bool = False, ascii_only: bool = False) -> str:
    if len(outline.captions) <= MAX_BOXES:
        for fit in FITS:
            grid = lay_out(outline, fit)
            if grid.extent.x <= width:
                return "\n".join(draw_boxes(outline, fit, grid, colour=colour, ascii_only=ascii_only)) + "\n"
    return draw_list(outline, width=width, ascii_only=ascii_only)


def lay_out(outline: Outline, fit: Fit) -> Grid:
    index = {caption.id: number for number, caption in enumerate(outline.captions)}
    metrics = Metrics(
        lambda caption: box_size(caption, fit), lambda label: label_size(label, fit), fit.gap, 0, 0, margin=0
    )
    links = [
        Link(index[arrow.source], index[arrow.target], label_size(arrow.label, fit) if arrow.label else None)
        for arrow in outline.arrows
    ]
    return make_grid([box_size(caption, fit) for caption in outline.captions], links, "down", metrics)


def box_size(caption: Caption, fit: Fit) -> Size:
    """Widths are odd, so that every box has a middle column."""
    lines = box_lines(caption, fit)
    width = max(map(columns, lines)) + 4
    return Size(width + 1 - width % 2, 1 if is_end(caption) else len(lines) + 2)


def label_size(label: str, fit: Fit) -> Size:
    width = columns(cut(label, fit.text)) + 2
    return Size(width + 1 - width % 2, 1)


def is_end(caption: Caption) -> bool:
    return caption.type in (NodeType.START, NodeType.END)


def box_lines(caption: Caption, fit: Fit) -> list[str]:
    lines = [cut(caption.id, fit.text)]
    if fit.detail and not is_end(caption):
        lines += [cut(kind_word(caption), fit.text)]
    return lines


def kind_word(caption: Caption) -> str:
    """Tasks show their handler; other nodes show their type first."""
    if caption.type is NodeType.TASK:
        return caption.detail
    word = caption.type.replace("_", "-")
    return f"{word}: {caption.detail}" if caption.detail else word


def draw_boxes(outline: Outline, fit: Fit, grid: Grid, *, colour: bool, ascii_only: bool) -> list[str]:
    layers, centres = grid.layers, grid.centres
    labels = {
        path[0]: cut(arrow.label, fit.text)
        for arrow, path in zip(outline.arrows, layers.paths, strict=True)
        if arrow.label
    }
    channels = [assign_tracks(nets_below(grid, row)) for row in layers.rows]
    tops, height = [], 0
    for number, row in enumerate(layers.rows):
        tops.append(height)
        height += grid.depths[number]
        if number + 1 < len(layers.rows):
            below = layers.rows[number + 1]
            arrows = any(not layers.bend[vertex] for vertex in below)
            height += max(channel_height(channels[number]), 1 if any(not layers.bend[v] for v in row) else 0) + arrows
    canvas = Canvas(grid.extent.x, height)
    for number, row in enumerate(layers.rows):
        middle = tops[number] + grid.depths[number] // 2
        for vertex in row:
            if layers.bend[vertex]:
                canvas.line_down(centres[vertex], tops[number], tops[number] + grid.depths[number] - 1)
        if number + 1 < len(layers.rows):
            draw_channel(canvas, grid, number, tops, channels[number])
        for vertex in row:
            if vertex in labels:
                text = labels[vertex]
                canvas.write(middle, centres[vertex] - columns(text) // 2, text, LOOKS[NodeType.CONDITIONAL].ansi)
    for vertex, caption in enumerate(outline.captions):
        layer = layers.layer_of[vertex]
        top = tops[layer] + (grid.depths[layer] - layers.sizes[vertex].height) // 2
        draw_box(canvas, caption, fit, layers.sizes[vertex], centres[vertex], top, bool(layers.below[vertex]))
    return canvas.lines(colour=colour, ascii_only=ascii_only, line_style=DIM)


def nets_below(grid: Grid, row: Iterable[int]) -> list[Net]:
    return [
        Net(grid.centres[vertex], tuple(grid.centres[target] for target in grid.layers.below[vertex]))
        for vertex in row
        if grid.layers.below[vertex]
    ]


def channel_height(tracks: dict[int, int]) -> int:
    return max(tracks.values(), default=-1) + 1


def draw_channel(canvas: Canvas, grid: Grid, number: int, tops: list[int], tracks: dict[int, int]) -> None:
    """Lines leave downwards, turn on the track of their source and end on top of their targets, with a tip on nodes."""
    layers, centres = grid.layers, grid.centres
    first = tops[number] + grid.depths[number]
    for vertex in layers.rows[number]:
        column = centres[vertex]
        bottom = first - 1
        if not layers.bend[vertex]:
            bottom -= (grid.depths[number] - layers.sizes[vertex].height + 1) // 2
        for target in layers.below[vertex]:
            end = tops[number + 1]
            if not layers.bend[target]:
                end += (grid.depths[number + 1] - layers.sizes[target].height) // 2 - 1
            if centres[target] == column:
                canvas.line_down(column, bottom, end)
            else:
                track = first + tracks[column]
                canvas.line_down(column, bottom, track)
                canvas.line_across(track, min(column, centres[target]), max(column, centres[target]))
                canvas.line_down(centres[target], track, end)
    for target in layers.rows[number + 1]:
        if not layers.bend[target] and layers.above[target]:
            row = tops[number + 1] + (grid.depths[number + 1] - layers.sizes[target].height) // 2 - 1
            canvas.write(row, centres[target], "▼", DIM)


def draw_box(canvas: Canvas, caption: Caption, fit: Fit, size: Size, centre: int, top: int, leaves: bool) -> None:
    left = centre - size.width // 2
    lines = box_lines(caption, fit)
    if is_end(caption):
        text = f"( {lines[0]} )"
        canvas.write(top, centre - columns(text) // 2, text, BOLD)
        return
    border, accent = LOOKS[caption.type].border, LOOKS[caption.type].ansi
    inner = size.width - 2
    upper, lower = border.corners
    canvas.write(top, left, upper[0] + border.across * inner + upper[1], accent)
    canvas.write(top + size.height - 1, left, lower[0] + border.across * inner + lower[1], accent)
    if leaves:
        canvas.write(top + size.height - 1, centre, border.port, accent)
    for number, line in enumerate(lines):
        row = top + 1 + number
        canvas.write(row, left, border.down + " " * inner + border.down, accent)
        canvas.write(row, left + (size.width - columns(line)) // 2, line, DIM if number else BOLD)
