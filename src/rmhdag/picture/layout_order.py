"""Layers and the order inside them: turns a graph into rows with as few crossings as a few sweeps can reach.

Vertices are small integers; the first `len(sizes)` are the graph's own, the rest stand where a long edge passes a layer
or where an edge carries its label.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

# Beyond this a picture is unreadable anyway: more long edges are drawn straight instead of around nodes.
MAX_BENDS = 10_000
MAX_SWEEPS = 12
# With more segments than this, sweeps cost more than they improve the picture.
MANY_SEGMENTS = 6_000


class Size(NamedTuple):
    width: int
    height: int


class Link(NamedTuple):
    """An edge between two of the graph's own vertices; a label has a layer of its own."""

    source: int
    target: int
    label: Size | None = None


@dataclass(slots=True)
class Layers:
    """`rows[k]` is layer k from left to right; `paths[i]` lists the bends of link i."""

    sizes: list[Size]
    layer_of: list[int]
    bend: list[bool]
    above: list[list[int]]
    below: list[list[int]]
    rows: list[list[int]] = field(default_factory=list)
    paths: list[list[int]] = field(default_factory=list)


def order_layers(sizes: Sequence[Size], links: Sequence[Link]) -> Layers:
    """Rank by longest path, lead long edges through bends, order each layer. Raises ValueError on a cycle."""
    layer_of = rank(len(sizes), links)
    layers = insert_bends(list(sizes), layer_of, links)
    layers.rows = initial_rows(layers)
    reduce_crossings(layers)
    return layers


def rank(count: int, links: Sequence[Link]) -> list[int]:
    """The length of the longest path to each vertex; a labelled link has length two, so that its label has a place."""
    targets: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target, label in links:
        targets[source].append((target, 2 if label else 1))
        waiting[target] += 1
    layer_of = [0] * count
    free = [vertex for vertex in range(count) if not waiting[vertex]]
    for vertex in free:  # grows while it is read
        for target, length in targets[vertex]:
            layer_of[target] = max(layer_of[target], layer_of[vertex] + length)
            waiting[target] -= 1
            if not waiting[target]:
                free.append(target)
    if len(free) < count:
        raise ValueError("a graph with a cycle has no layers")
    return layer_of


def insert_bends(sizes: list[Size], layer_of: list[int], links: Sequence[Link]) -> Layers:
    """Long edges to one target share their bends: they mean the same, and 300 edges into END stay one line."""
    count = len(sizes)
    layers = Layers(sizes, layer_of, [False] * count, [[] for _ in range(count)], [[] for _ in range(count)])
    shared: dict[tuple[int, int], int] = {}

    def add_bend(layer: int, size: Size) -> int:
        sizes.append(size)
        layer_of.append(layer)
        layers.bend.append(True)
        layers.above.append([])
        layers.below.append([])
        return len(sizes) - 1

    for source, target, label in links:
        path: list[int] = []
        first, last = layer_of[source] + 1, layer_of[target]
        if label:
            path.append(add_bend(first, label))
            first += 1
        for layer in range(first, last):
            bend = shared.get((target, layer))
            if bend is None:
                if len(shared) >= MAX_BENDS:
                    break
                bend = shared[target, layer] = add_bend(layer, Size(1, 1))
            path.append(bend)
        for upper, lower in pairwise([source, *path, target]):
            if layer_of[lower] - layer_of[upper] == 1 and upper not in layers.above[lower]:
                layers.above[lower].append(upper)
                layers.below[upper].append(lower)
        layers.paths.append(path)
    return layers


def initial_rows(layers: Layers) -> list[list[int]]:
    """Depth first, so that branches start side by side in the order in which they are written."""
    rows: list[list[int]] = [[] for _ in range(max(layers.layer_of, default=-1) + 1)]
    is_placed = [False] * len(layers.sizes)
    stack = [vertex for vertex in range(len(layers.sizes)) if not layers.above[vertex]][::-1]
    while stack:
        vertex = stack.pop()
        if not is_placed[vertex]:
            is_placed[vertex] = True
            rows[layers.layer_of[vertex]].append(vertex)
            stack.extend(reversed(layers.below[vertex]))
    return rows


def reduce_crossings(layers: Layers) -> None:
    """Barycenter sweeps, down and up in turn; the best order wins, the earlier one at a tie."""
    position = [0] * len(layers.sizes)
    for row in layers.rows:
        place(row, position)
    best = count_crossings(layers, position)
    best_rows = [row[:] for row in layers.rows]
    many = sum(map(len, layers.above)) > MANY_SEGMENTS
    fruitless = 0
    for sweep in range(4 if many else MAX_SWEEPS):
        if not best or fruitless == 4:
            break
        down = sweep % 2 == 0
        neighbours = layers.above if down else layers.below
        for row in layers.rows[1:] if down else layers.rows[-2::-1]:
            sort_by_barycenter(row, neighbours, position)
        crossings = count_crossings(layers, position)
        fruitless += 1
        if crossings < best:
            best, best_rows, fruitless = crossings, [row[:] for row in layers.rows], 0
    layers.rows = best_rows


def place(row: list[int], position: list[int]) -> None:
    for index, vertex in enumerate(row):
        position[vertex] = index


def sort_by_barycenter(row: list[int], neighbours: list[list[int]], position: list[int]) -> None:
    """Vertices without neighbours on that side keep their slot; the others are sorted into the remaining ones."""
    centre: dict[int, float] = {}
    for vertex in row:
        beside = neighbours[vertex]
        if beside:
            centre[vertex] = sum([position[other] for other in beside]) / len(beside)
    ordered = iter(sorted(centre, key=centre.__getitem__))
    row[:] = [next(ordered) if vertex in centre else vertex for vertex in row]
    place(row, position)


def count_crossings(layers: Layers, position: list[int]) -> int:
    crossings = 0
    for row in layers.rows[:-1]:
        ends: list[int] = []
        for vertex in row:
            targets = sorted([position[target] for target in layers.below[vertex]])
            for target in targets:
                crossings += len(ends) - bisect_right(ends, target)
            for target in targets:
                insort(ends, target)
    return crossings
