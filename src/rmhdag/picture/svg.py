"""A layout as one SVG file: no script, no external host, light or dark by the reader's own setting.

Colours are repeated in a media query instead of CSS variables, because few viewers except browsers support
variables.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise

from rmhdag.models.states import NodeType
from rmhdag.picture.layout import MAX_TEXT, Layout, PlacedEdge, PlacedNode, Point
from rmhdag.picture.node_looks import LOOKS
from rmhdag.picture.svg_style import STYLE
from rmhdag.picture.text_width import cut, picture_width

TIP = 7
DESCRIBED_NODES = 60  # a longer text would not help a listener


def draw_svg(layout: Layout) -> str:
    name = escape(f"rmhdag-{layout.title.replace(' ', '-')}")
    size = f'width="{layout.width}" height="{layout.height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {layout.width} {layout.height}"',
        f' class="rmhdag" role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc">',
        f'<title id="{name}-title">{escape(layout.title)}</title>',
        f'<desc id="{name}-desc">{escape(describe(layout))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" {size} rx="12"/>',
        '<g class="edges">',
        *[draw_line(edge, layout) for edge in layout.edges],
        *draw_tips(layout),
        *[draw_label(edge) for edge in layout.edges if edge.label_at],
        "</g>",
        *[draw_node(node, layout) for node in layout.nodes],
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def describe(layout: Layout) -> str:
    """The same graph in sentences, for readers who cannot see it."""
    sentences = [f"{layout.description}." if layout.description else ""]
    targets: dict[str, list[str]] = {}
    for edge in layout.edges:
        targets.setdefault(edge.source, []).append(f"{edge.target} if {edge.label}" if edge.label else edge.target)
    for node in layout.nodes[:DESCRIBED_NODES]:
        kind = f"{node.type.replace('_', '-')} {node.detail}".strip()
        follows = ", ".join(targets.get(node.id, [])) or "nothing"
        sentences.append(f"{node.label} ({kind}) leads to {follows}.")
    if len(layout.nodes) > DESCRIBED_NODES:
        sentences.append(f"And {len(layout.nodes) - DESCRIBED_NODES} more nodes.")
    return " ".join(filter(None, sentences))


def draw_line(edge: PlacedEdge, layout: Layout) -> str:
    down = layout.direction == "down"
    end = edge.points[-1]
    last = Point(end.x, end.y - TIP + 1) if down else Point(end.x - TIP + 1, end.y)
    points = [*edge.points[:-1], last]
    commands = [f"M{points[0].x} {points[0].y}"]
    for a, b in pairwise(points):
        if (a.x == b.x) if down else (a.y == b.y):
            commands.append(f"L{b.x} {b.y}")
        elif down:
            middle = (a.y + b.y) // 2
            commands.append(f"C{a.x} {middle} {b.x} {middle} {b.x} {b.y}")
        else:
            middle = (a.x + b.x) // 2
            commands.append(f"C{middle} {a.y} {middle} {b.y} {b.x} {b.y}")
    return f'<path class="line {edge.kind}" d="{"".join(commands)}"/>'


def draw_tips(layout: Layout) -> list[str]:
    """One arrow head per place, however many edges end there."""
    tips = dict.fromkeys(edge.points[-1] for edge in layout.edges)
    if layout.direction == "down":
        return [f'<path class="tip" d="M{x} {y}l-4 -{TIP}h8z"/>' for x, y in tips]
    return [f'<path class="tip" d="M{x} {y}l-{TIP} -4v8z"/>' for x, y in tips]


def draw_label(edge: PlacedEdge) -> str:
    assert edge.label_at is not None
    text = cut(edge.label, MAX_TEXT)
    width = picture_width(text, 12, monospace=True) + 14
    x, y = edge.label_at
    return (
        f'<g class="label"><rect x="{x - width // 2}" y="{y - 10}" width="{width}" height="20" rx="10"/>'
        f'<text x="{x}" y="{y + 4}">{escape(text)}</text>{tooltip(edge.label)}</g>'
    )


def draw_node(node: PlacedNode, layout: Layout) -> str:
    body = draw_terminal(node, layout) if node.type in (NodeType.START, NodeType.END) else draw_card(node)
    text = f"{node.label} ({node.type.replace('_', '-')} {node.detail}".rstrip() + ")"
    if node.description:
        text += f": {node.description}"
    return f'<g class="node {node.type}" data-node="{escape(node.id)}">{tooltip(text)}{body}</g>'


def tooltip(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def draw_terminal(node: PlacedNode, layout: Layout) -> str:
    x, y = node.x + node.width // 2, node.y + node.height // 2
    radius = node.height // 2
    mark = f"M{x - 4} {y - 6}v12l10 -6z" if node.type is NodeType.START else f"M{x - 5} {y - 5}h10v10h-10z"
    above = layout.direction == "down" and node.type is NodeType.START  # below it, the edge would run through the word
    baseline = y - radius - 6 if above else y + radius + 15
    text = f'<text class="end-label" x="{x}" y="{baseline}">{escape(node.label)}</text>'
    return f'<circle class="disc" cx="{x}" cy="{y}" r="{radius}"/><path class="mark" d="{mark}"/>{text}'


def draw_card(node: PlacedNode) -> str:
    x, y, width, height = node.x, node.y, node.width, node.height
    inset = 10 if node.type is NodeType.CONDITIONAL else 0
    tile_x = x + inset + 10
    text_x = tile_x + 32 + 10
    detail = cut(node.detail, MAX_TEXT)
    name_y = y + height // 2 + (-4 if detail else 5)
    parts = [draw_shape(node), f'<rect class="tile" x="{tile_x}" y="{y + 10}" width="32" height="32" rx="7"/>']
    parts.append(f'<path class="icon" transform="translate({tile_x + 8} {y + 18})" d="{LOOKS[node.type].icon}"/>')
    parts.append(f'<text class="name" x="{text_x}" y="{name_y}">{escape(node.label)}</text>')
    if detail:
        parts.append(f'<text class="detail" x="{text_x}" y="{y + height // 2 + 14}">{escape(detail)}</text>')
    if node.type is NodeType.FAN_OUT:
        parts.append(
            f'<rect class="badge" x="{x + width - 30}" y="{y - 9}" width="34" height="18" rx="9"/>'
            f'<text class="badge-text" x="{x + width - 13}" y="{y + 4}">× n</text>'
        )
    return "".join(parts)


def draw_shape(node: PlacedNode) -> str:
    x, y, width, height = node.x, node.y, node.width, node.height
    match node.type:
        case NodeType.CONDITIONAL:
            half = height // 2
            return (
                f'<path class="card" d="M{x + 16} {y}h{width - 32}l16 {half}l-16 {half}h-{width - 32}l-16 -{half}z" '
                'stroke-linejoin="round"/>'
            )
        case NodeType.FAN_OUT:
            return "".join(
                f'<rect class="card" x="{x + shift}" y="{y + shift}" width="{width}" height="{height}" rx="10"/>'
                for shift in (6, 3, 0)
            )
        case NodeType.WORKFLOW:
            return (
                f'<rect class="card" x="{x}" y="{y}" width="{width}" height="{height}" rx="10"/>'
                f'<rect class="inner" x="{x + 4}" y="{y + 4}" width="{width - 8}" height="{height - 8}" rx="7"/>'
            )
        case NodeType.APPROVAL:
            return f'<rect class="card" x="{x}" y="{y}" width="{width}" height="{height}" rx="{height // 2}"/>'
        case _:
            return f'<rect class="card" x="{x}" y="{y}" width="{width}" height="{height}" rx="10"/>'
