"""The position of each node and edge in a workflow's picture; computed once, drawn by every front end.

Layers by longest path, order by barycenter, places by alignment; whole numbers, and always the same result.
How it works: docs/architecture/graph-layout.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rmhdag.models.states import NodeType
from rmhdag.picture.layout_order import Layers, Link, Size, order_layers
from rmhdag.picture.layout_position import centre_positions
from rmhdag.picture.node_looks import LOOKS
from rmhdag.picture.outline import Arrow, ArrowKind, Caption, Outline, outline
from rmhdag.picture.text_width import cut, picture_width

if TYPE_CHECKING:
    from rmhdag.workflow.definition import WorkflowDefinition

Direction = Literal["down", "right"]


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """`x` and `y` are the upper left corner; `layer` counts from the start, label layers included."""

    id: str
    type: NodeType
    label: str
    detail: str
    description: str
    layer: int
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class PlacedEdge:
    """`points` lead from the border of the source to that of the target; `label_at` is the middle of the label."""

    source: str
    target: str
    kind: ArrowKind
    points: tuple[Point, ...]
    label: str = ""
    label_at: Point | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    title: str
    description: str
    direction: Direction
    width: int
    height: int
    nodes: tuple[PlacedNode, ...]
    edges: tuple[PlacedEdge, ...]

    def as_json(self) -> dict[str, Any]:
        """The stored form, see `dag_workflows.layout`."""
        return {
            "title": self.title,
            "description": self.description,
            "direction": self.direction,
            "width": self.width,
            "height": self.height,
            "nodes": [{name: getattr(node, name) for name in PlacedNode.__slots__} for node in self.nodes],
            "edges": [
                {
                    "source": edge.source,
                    "target": edge.target,
                    "kind": edge.kind,
                    "label": edge.label,
                    "label_at": list(edge.label_at) if edge.label_at else None,
                    "points": [list(point) for point in edge.points],
                }
                for edge in self.edges
            ],
        }


@dataclass(frozen=True, slots=True)
class Metrics:
    """The sizes of things: in points for pictures, in characters for a terminal."""

    node_size: Callable[[Caption], Size]
    label_size: Callable[[str], Size]
    node_gap: int
    layer_gap: int
    label_gap: int
    margin: int


MAX_TEXT = 34  # characters; longer captions are cut, the whole text is in the tooltip


def picture_node_size(caption: Caption) -> Size:
    if caption.type in (NodeType.START, NodeType.END):
        return Size(even(max(picture_width(caption.id, 12) + 8, 28)), 28)
    text = max(picture_width(caption.id, 14), picture_width(cut(caption.detail, MAX_TEXT), 12, monospace=True))
    slope = LOOKS[caption.type].slope
    return Size(even(max(text + 64 + slope, 120)), 52)


def picture_label_size(label: str) -> Size:
    return Size(even(picture_width(cut(label, MAX_TEXT), 12, monospace=True) + 14), 20)


def even(width: int) -> int:
    return width + width % 2


PICTURE = Metrics(picture_node_size, picture_label_size, node_gap=32, layer_gap=40, label_gap=20, margin=28)


def layout(definition: WorkflowDefinition, *, direction: Direction = "down", metrics: Metrics = PICTURE) -> Layout:
    """The picture of a checked definition. Linear except for a sort: 1,000 nodes take about a quarter of a second."""
    return place(outline(definition), direction=direction, metrics=metrics)


def place(outline: Outline, *, direction: Direction = "down", metrics: Metrics = PICTURE) -> Layout:
    index = {caption.id: number for number, caption in enumerate(outline.captions)}
    grid = make_grid(
        [metrics.node_size(caption) for caption in outline.captions],
        [
            Link(index[arrow.source], index[arrow.target], metrics.label_size(arrow.label) if arrow.label else None)
            for arrow in outline.arrows
        ],
        direction,
        metrics,
    )
    nodes = tuple(place_node(grid, vertex, caption) for vertex, caption in enumerate(outline.captions))
    round_ones = {index[caption.id] for caption in outline.captions if caption.type in (NodeType.START, NodeType.END)}
    edges = tuple(
        place_edge(grid, arrow, index[arrow.source], index[arrow.target], path, round_ones)
        for arrow, path in zip(outline.arrows, grid.layers.paths, strict=True)
    )
    return Layout(outline.title, outline.description, direction, grid.extent.x, grid.extent.y, nodes, edges)


@dataclass(frozen=True, slots=True)
class Grid:
    """Layers with their places, always as if drawn downwards; `point` rotates them if the picture runs to the right."""

    layers: Layers
    centres: list[int]
    tops: list[int]
    depths: list[int]
    turned: bool
    margin: int

    def point(self, across: int, along: int) -> Point:
        across += self.margin
        return Point(along, across) if self.turned else Point(across, along)

    @property
    def extent(self) -> Point:
        ends = (centre + (size.width + 1) // 2 for centre, size in zip(self.centres, self.layers.sizes, strict=True))
        return self.point(max(ends) + self.margin, self.tops[-1] + self.depths[-1] + self.margin)


def make_grid(sizes: list[Size], links: list[Link], direction: Direction, metrics: Metrics) -> Grid:
    turned = direction == "right"
    if turned:
        sizes = [flip(size) for size in sizes]
        links = [Link(link.source, link.target, flip(link.label) if link.label else None) for link in links]
    layers = order_layers(sizes, links)
    centres = centre_positions(layers, metrics.node_gap)
    tops, depths = stack_rows(layers, centres, metrics)
    return Grid(layers, centres, tops, depths, turned, metrics.margin)


def stack_rows(layers: Layers, centres: list[int], metrics: Metrics) -> tuple[list[int], list[int]]:
    """Long jumps between two rows get more space, so that their curves stay steep enough to follow."""
    tops, depths = [metrics.margin], []
    for number, row in enumerate(layers.rows):
        depths.append(max(layers.sizes[vertex].height for vertex in row))
        if number + 1 == len(layers.rows):
            break
        has_label = any(
            layers.bend[v] and layers.sizes[v].width > 1 for r in layers.rows[number : number + 2] for v in r
        )
        jump = max(abs(centres[v] - centres[target]) for v in row for target in layers.below[v] or [v])
        gap = metrics.label_gap if has_label else metrics.layer_gap
        tops.append(tops[-1] + depths[-1] + gap + min(jump // 14, metrics.layer_gap))
    return tops, depths


def flip(size: Size) -> Size:
    return Size(size.height, size.width)


def place_node(grid: Grid, vertex: int, caption: Caption) -> PlacedNode:
    size, layer = grid.layers.sizes[vertex], grid.layers.layer_of[vertex]
    x, y = grid.point(
        grid.centres[vertex] - size.width // 2, grid.tops[layer] + (grid.depths[layer] - size.height) // 2
    )
    width, height = flip(size) if grid.turned else size
    return PlacedNode(
        caption.id, caption.type, caption.id, caption.detail, caption.description, layer, x, y, width, height
    )


def place_edge(
    grid: Grid, arrow: Arrow, source: int, target: int, bends: Sequence[int], round_ones: Set[int]
) -> PlacedEdge:
    """From the source's lower border, straight through each layer in between, to the target's upper border."""
    layers = grid.layers

    def border(vertex: int, side: int) -> Point:
        layer = layers.layer_of[vertex]
        middle = grid.tops[layer] + grid.depths[layer] // 2
        size = layers.sizes[vertex]
        half = (min(size) if vertex in round_ones else size.height) // 2
        return grid.point(grid.centres[vertex], middle + side * half)

    points = [border(source, 1)]
    for bend in bends:
        layer = layers.layer_of[bend]
        top = grid.tops[layer]
        points += [grid.point(grid.centres[bend], along) for along in (top, top + grid.depths[layer])]
    points.append(border(target, -1))
    points = drop_straight(points, grid.turned)
    label_at = None
    if arrow.label:
        layer = layers.layer_of[bends[0]]
        label_at = grid.point(grid.centres[bends[0]], grid.tops[layer] + grid.depths[layer] // 2)
    return PlacedEdge(arrow.source, arrow.target, arrow.kind, tuple(points), arrow.label, label_at)


def drop_straight(points: list[Point], turned: bool) -> list[Point]:
    """Drop points between two others on the same line; long edges have dozens of them."""
    axis = 1 if turned else 0
    corners = [
        here
        for before, here, after in zip(points, points[1:], points[2:], strict=False)
        if not before[axis] == here[axis] == after[axis]
    ]
    return [points[0], *corners, points[-1]]
