"""The layout: properties that any picture must have, on graphs of all shapes, and the shapes that we promised."""

import json
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.models.states import NodeType
from rmhdag.picture.layout import Layout, PlacedNode, Point, layout, place
from rmhdag.picture.layout_order import Layers, Link, Size, count_crossings, initial_rows, order_layers, rank
from rmhdag.picture.outline import Arrow, Caption, Outline
from rmhdag.workflow.definition import WorkflowDefinition

NAMES = [f"node_{number}" for number in range(24)]


@st.composite
def outlines(draw: st.DrawFn) -> Outline:
    """Random graphs whose arrows go from earlier to later nodes, some of them labelled."""
    count = draw(st.integers(1, len(NAMES)))
    kinds = draw(st.lists(st.sampled_from(NodeType), min_size=count, max_size=count))
    captions = tuple(Caption(name, kind, "raster.validate") for name, kind in zip(NAMES[:count], kinds, strict=True))
    pairs = list(combinations(NAMES[:count], 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=60, unique=True)) if pairs else []
    labels = st.sampled_from(["", "", "< 100", "a rather long condition == 'yes'"])
    return Outline("t v1", "", captions, tuple(Arrow(source, target, draw(labels)) for source, target in chosen))


def overlap(a: PlacedNode, b: PlacedNode) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


@given(outlines(), st.sampled_from(["down", "right"]))
def test_nodes_lie_inside_and_apart_and_edges_run_forwards(shown: Outline, direction: str) -> None:
    placed = place(shown, direction="right" if direction == "right" else "down")
    for node in placed.nodes:
        assert 0 <= node.x <= node.x + node.width <= placed.width
        assert 0 <= node.y <= node.y + node.height <= placed.height
    assert not [(a.id, b.id) for a, b in combinations(placed.nodes, 2) if overlap(a, b)]
    nodes = {node.id: node for node in placed.nodes}
    assert [(edge.source, edge.target) for edge in placed.edges] == [arrow[:2] for arrow in shown.arrows]
    axis = 0 if direction == "right" else 1
    for edge in placed.edges:
        assert nodes[edge.source].layer < nodes[edge.target].layer
        along = [point[axis] for point in edge.points]
        assert along == sorted(along)
        assert touches(nodes[edge.source], edge.points[0])
        assert touches(nodes[edge.target], edge.points[-1])
        assert bool(edge.label) == (edge.label_at is not None)


def touches(node: PlacedNode, point: Point) -> bool:
    return node.x <= point.x <= node.x + node.width and node.y <= point.y <= node.y + node.height


@given(outlines())
def test_labels_lie_on_nothing(shown: Outline) -> None:
    placed = place(shown)
    boxes = list(placed.nodes)
    for edge in placed.edges:
        if edge.label_at:
            x, y = edge.label_at
            boxes.append(PlacedNode("label", NodeType.TASK, "", "", "", 0, x - 16, y - 10, 32, 20))
    assert not [(a, b) for a, b in combinations(boxes, 2) if overlap(a, b)]


@given(outlines())
def test_same_graph_same_picture(shown: Outline) -> None:
    assert place(shown) == place(shown)


@given(outlines())
def test_sweeps_never_leave_more_crossings_than_the_written_order(shown: Outline) -> None:
    index = {caption.id: number for number, caption in enumerate(shown.captions)}
    links = [Link(index[arrow.source], index[arrow.target]) for arrow in shown.arrows]
    layers = order_layers([Size(10, 10)] * len(index), links)
    assert sorted(vertex for row in layers.rows for vertex in row) == list(range(len(layers.sizes)))
    assert crossings_of(layers) <= crossings_of(layers, as_written=True)


def crossings_of(layers: Layers, *, as_written: bool = False) -> int:
    position = [0] * len(layers.sizes)
    rows = layers.rows
    if as_written:
        rows = initial_rows(layers)
    for row in rows:
        for index, vertex in enumerate(row):
            position[vertex] = index
    counted = count_crossings(Layers(**{**fields(layers), "rows": rows}), position)
    assert counted == slow_crossings(layers, rows, position)
    return counted


def fields(layers: Layers) -> dict[str, Any]:
    return {name: getattr(layers, name) for name in Layers.__slots__}


def slow_crossings(layers: Layers, rows: list[list[int]], position: list[int]) -> int:
    """Each pair of segments between two rows, compared."""
    total = 0
    for row in rows:
        segments = [(position[vertex], position[target]) for vertex in row for target in layers.below[vertex]]
        total += sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in combinations(segments, 2))
    return total


def test_rank_is_the_longest_path_and_labels_take_a_layer() -> None:
    links = [Link(0, 1), Link(1, 2, Size(9, 1)), Link(0, 2), Link(2, 3), Link(0, 3)]
    assert rank(4, links) == [0, 1, 3, 4]


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        rank(2, [Link(0, 1), Link(1, 0)])


def test_a_chain_is_straight() -> None:
    chain = Outline(
        "chain v1",
        "",
        tuple(Caption(name, NodeType.TASK, "x" * number) for number, name in enumerate(NAMES)),
        tuple(Arrow(a, b) for a, b in pairwise(NAMES)),
    )
    placed = place(chain)
    assert len({node.x + node.width // 2 for node in placed.nodes}) == 1
    assert all(len(edge.points) == 2 for edge in placed.edges)


def test_a_parent_stands_over_the_middle_of_its_children() -> None:
    captions = [Caption(name, NodeType.TASK) for name in NAMES[:4]]
    placed = place(Outline("t v1", "", tuple(captions), tuple(Arrow(NAMES[0], name) for name in NAMES[1:4])))
    parent, left, middle, right = [node.x + node.width // 2 for node in placed.nodes]
    assert left < middle < right
    assert parent == middle == (left + right) // 2


def test_long_edges_to_one_target_share_their_way() -> None:
    """300 nodes that all end the workflow are one line, not 300."""
    names = [f"n{number}" for number in range(300)]
    captions = (*(Caption(name, NodeType.TASK) for name in names), Caption("END", NodeType.END))
    arrows = [Arrow(a, b) for a, b in pairwise(names)] + [Arrow(name, "END") for name in names]
    placed = place(Outline("t v1", "", captions, tuple(arrows)))
    assert placed.width < 600
    assert max(len(edge.points) for edge in placed.edges) <= 6


def test_a_thousand_nodes_far_apart_stay_within_the_limit_of_bends() -> None:
    names = [f"n{number}" for number in range(1_000)]
    arrows = [Arrow(a, b) for a, b in pairwise(names)]
    arrows += [Arrow(names[number], names[number + 400]) for number in range(600)]
    placed = place(Outline("t v1", "", tuple(Caption(name, NodeType.TASK) for name in names), tuple(arrows)))
    assert len(placed.edges) == len(arrows)


ROUTING = {
    "workflow_id": "routing",
    "name": "Routing",
    "nodes": {
        "measure": {"type": "task", "task": {"handler": "size_check"}, "next": ["route"]},
        "route": {
            "type": "conditional",
            "subject": "{{ nodes.measure.output.size }}",
            "branches": [
                {"condition": "< 100", "next": ["small"]},
                {"condition": "< 200", "next": ["small"]},
                {"default": True, "next": []},
            ],
        },
        "small": {"type": "task", "task": {"handler": "echo"}, "ends": True},
        "each": {
            "type": "fan_out",
            "source": "{{ inputs.items }}",
            "task": {"handler": "echo"},
            "child_node": "one",
            "next": ["all"],
        },
        "one": {"type": "task", "task": {"handler": "echo"}, "template_of": "each"},
        "all": {"type": "fan_in", "source_node": "each", "ends": True},
    },
}


def routing() -> Layout:
    return layout(WorkflowDefinition.model_validate(ROUTING))


def test_start_and_end_appear_and_the_child_of_a_fan_out_does_not() -> None:
    placed = routing()
    assert [node.id for node in placed.nodes] == ["START", "measure", "route", "small", "each", "all", "END"]
    arrows = {(edge.source, edge.target): edge.label for edge in placed.edges}
    assert arrows == {
        ("START", "measure"): "",
        ("START", "each"): "",
        ("measure", "route"): "",
        ("route", "small"): "< 100, < 200",
        ("route", "END"): "default",
        ("small", "END"): "",
        ("each", "all"): "",
        ("all", "END"): "",
    }


def test_the_stored_form_is_plain_json() -> None:
    stored = routing().as_json()
    assert json.loads(json.dumps(stored)) == stored
    assert stored["nodes"][1] == {
        "id": "measure",
        "type": "task",
        "label": "measure",
        "detail": "size_check",
        "description": "",
        "layer": 1,
        "x": stored["nodes"][1]["x"],
        "y": stored["nodes"][1]["y"],
        "width": stored["nodes"][1]["width"],
        "height": 52,
    }
