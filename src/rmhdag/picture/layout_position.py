"""Horizontal places: long edges straight, parents over the middle of their children, nothing overlapping.

The method is that of Brandes and Köpf: align each vertex with a median neighbour in four ways (from above or below,
from the left or right), pack the blocks tightly, and take the middle of the four answers. Linear in the graph's size.
"""

from __future__ import annotations

from itertools import pairwise
from math import floor

from rmhdag.picture.layout_order import Layers


def centre_positions(layers: Layers, gap: int) -> list[int]:
    """The x of each vertex's centre; neighbours in a row keep at least `gap` between their boxes."""
    if not layers.sizes:
        return []
    conflicts = find_conflicts(layers)
    candidates: list[list[float]] = []
    for downwards in (True, False):
        rows = layers.rows if downwards else layers.rows[::-1]
        neighbours = layers.above if downwards else layers.below
        for mirrored in (False, True):
            ordered_rows = [row[::-1] for row in rows] if mirrored else rows
            root = align(layers, ordered_rows, neighbours, conflicts)
            places = pack(layers, ordered_rows, root, gap)
            candidates.append([-place for place in places] if mirrored else places)
    return balance(layers, candidates)


def find_conflicts(layers: Layers) -> set[tuple[int, int]]:
    """Segments that cross a segment between two bends: the long edge stays straight, the short one gives way."""
    position = number(layers.rows)
    conflicts: set[tuple[int, int]] = set()
    for upper, lower in pairwise(layers.rows):
        left, start = 0, 0
        for index, vertex in enumerate(lower):
            straight = bend_above(layers, vertex)
            if straight is None and index < len(lower) - 1:
                continue
            right = len(upper) - 1 if straight is None else position[straight]
            for other in lower[start : index + 1]:
                for source in layers.above[other]:
                    inner = layers.bend[source] and layers.bend[other]
                    if not inner and not left <= position[source] <= right:
                        conflicts.add((source, other))
            left, start = right, index + 1
    return conflicts


def bend_above(layers: Layers, vertex: int) -> int | None:
    if not layers.bend[vertex]:
        return None
    return next((source for source in layers.above[vertex] if layers.bend[source]), None)


def number(rows: list[list[int]]) -> list[int]:
    position = [0] * sum(map(len, rows))
    for row in rows:
        for index, vertex in enumerate(row):
            position[vertex] = index
    return position


def align(
    layers: Layers, rows: list[list[int]], neighbours: list[list[int]], conflicts: set[tuple[int, int]]
) -> list[int]:
    """The name of each vertex's block: that of a median neighbour, unless it would cross an earlier block."""
    position = number(rows)
    root = list(range(len(layers.sizes)))
    bend = layers.bend
    for row in rows:
        limit = -1
        for vertex in row:
            beside = neighbours[vertex]
            if bend[vertex] and len(beside) > 1:  # bends follow bends, so that a shared line runs straight
                beside = [other for other in beside if bend[other]] or beside
            if not beside:
                continue
            beside = sorted(beside, key=position.__getitem__)
            for middle in sorted({(len(beside) - 1) // 2, len(beside) // 2}):
                other = beside[middle]
                free = (other, vertex) not in conflicts and (vertex, other) not in conflicts
                if position[other] > limit and free:
                    root[vertex] = root[other]
                    limit = position[other]
                    break
    return root


def pack(layers: Layers, rows: list[list[int]], root: list[int], gap: int) -> list[float]:
    """As far left as the blocks to the left allow, then each block as close to its right neighbour as it can go."""
    sizes = layers.sizes
    before: dict[int, dict[int, float]] = {name: {} for name in set(root)}
    after: dict[int, dict[int, float]] = {name: {} for name in before}
    for row in rows:
        for left, right in pairwise(row):
            a, b = root[left], root[right]
            distance = max(before[b].get(a, 0.0), (sizes[left].width + sizes[right].width) / 2 + gap)
            before[b][a] = after[a][b] = distance
    order = [name for name in sorted(before) if not before[name]]
    waiting = {name: len(others) for name, others in before.items()}
    place = dict.fromkeys(before, 0.0)
    for name in order:  # grows while it is read
        for other, distance in after[name].items():
            place[other] = max(place[other], place[name] + distance)
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    for name in reversed(order):
        if after[name]:
            place[name] = max(place[name], min(place[other] - distance for other, distance in after[name].items()))
    return [place[name] for name in root]


def balance(layers: Layers, candidates: list[list[float]]) -> list[int]:
    """Shift the four results onto the narrowest one and take, per vertex, the mean of the two middle values."""
    halves = [size.width / 2 for size in layers.sizes]
    spans = [
        (
            min(x - half for x, half in zip(xs, halves, strict=True)),
            max(x + half for x, half in zip(xs, halves, strict=True)),
        )
        for xs in candidates
    ]
    narrow_left, narrow_right = min(spans, key=lambda span: span[1] - span[0])
    shifted = []
    for index, (xs, (left, right)) in enumerate(zip(candidates, spans, strict=True)):
        shift = narrow_right - right if index % 2 else narrow_left - left
        shifted.append([x + shift for x in xs])
    centres = []
    for four in zip(*shifted, strict=True):
        _, low, high, _ = sorted(four)
        centres.append((low + high) / 2)
    left = min(x - half for x, half in zip(centres, halves, strict=True))
    # Half up, never to even: two places that are n apart stay at least n apart.
    return [floor(x - left + 0.5) for x in centres]
