"""Polygons of which the bytes alone prove that nothing is to be done: no geometry is made of them.

Such a polygon has one ring, and each of its edges goes counterclockwise around one point, all of them together once.
Then no edge can meet another one, so that the polygon is valid. Rectangles, cells of grids and most buildings are such
polygons. The others are left to GEOS, and so is everything that is near to the limits of numbers.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa

HEAD = struct.Struct("<BIII")
LITTLE_ENDIAN, POLYGON, ONE_RING = 1, 3, 1
POINT_BYTES = 16
# A ring has the first vertex again at its end. Long rings are seldom round, and short runs are not worth it.
LEAST_VERTICES, MOST_VERTICES = 4, 40
LEAST_ROWS = 64
# A difference of two numbers is exact but for its last bit. Above this share of the products, and above this amount, a
# cross product has the sign of the exact one.
LEAST_SHARE, LEAST_AMOUNT = 1e-10, 1e-200
EAST, NORTH = 180.0, 90.0


class Plain(NamedTuple):
    """Numbers of the rows in their order, and west, south, east and north of each."""

    rows: np.ndarray
    bounds: np.ndarray


def plain_polygons(wkb: pa.Array) -> Plain:
    """Those in degrees, between -180 and 180, that need neither a cut nor a repair nor another direction."""
    sizes, starts, data = _layout(wkb)
    groups: list[tuple[np.ndarray, np.ndarray]] = []
    for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
        vertices, rest = divmod(int(size) - HEAD.size, POINT_BYTES)
        if rest or count < LEAST_ROWS or not LEAST_VERTICES <= vertices <= MOST_VERTICES:
            continue
        rows = np.flatnonzero(sizes == size)
        if count == len(wkb):
            block = data[starts[0] : starts[0] + count * size].reshape(count, size)
        else:
            block = np.lib.stride_tricks.sliding_window_view(data, int(size))[starts[rows]]
        head = np.frombuffer(HEAD.pack(LITTLE_ENDIAN, POLYGON, ONE_RING, vertices), dtype=np.uint8)
        is_plain, bounds = _around_one_point(block[:, HEAD.size :])
        is_plain &= (block[:, : HEAD.size] == head).all(axis=1)
        groups.append((rows[is_plain], bounds[is_plain]))
    if not groups:
        return Plain(np.array([], dtype=np.int64), np.empty((0, 4)))
    rows, bounds = (np.concatenate(parts) for parts in zip(*groups, strict=True))
    if len(groups) == 1:
        return Plain(rows, bounds)
    order = np.argsort(rows)
    return Plain(rows[order], bounds[order])


def _layout(wkb: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The size of each value, where it begins, and the bytes of all. A null has no bytes."""
    _, offsets, values = wkb.buffers()
    places = np.frombuffer(offsets, dtype=np.int32)[wkb.offset : wkb.offset + len(wkb) + 1] if len(wkb) else np.zeros(1)
    sizes = np.diff(places)
    if wkb.null_count:
        sizes = np.where(wkb.is_valid().to_numpy(zero_copy_only=False), sizes, 0)
    return sizes, places[:-1], np.frombuffer(values if values is not None else b"", dtype=np.uint8)


def _around_one_point(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rings of the same length go around the middle of their vertices, and the bounds of all."""
    numbers = np.ascontiguousarray(np.ascontiguousarray(block).view("<f8").T)
    x, y = numbers[0::2], numbers[1::2]
    bounds = np.stack([x.min(axis=0), y.min(axis=0), x.max(axis=0), y.max(axis=0)], axis=-1)
    west, south, east, north = bounds.T
    with np.errstate(invalid="ignore", over="ignore"):
        fine = (x[0] == x[-1]) & (y[0] == y[-1]) & (east - west <= EAST)
        fine &= (west >= -EAST) & (east <= EAST) & (south >= -NORTH) & (north <= NORTH)
        dx, dy = x - x[:-1].mean(axis=0), y - y[:-1].mean(axis=0)
        left, right = dx[:-1] * dy[1:], dy[:-1] * dx[1:]
        turns = left - right > LEAST_SHARE * (np.abs(left) + np.abs(right)) + LEAST_AMOUNT
        # Each step turns by less than half a circle: a lap enters the upper half once.
        is_upper = (dy > 0) | ((dy == 0) & (dx > 0))
        laps = (is_upper[1:] & ~is_upper[:-1]).sum(axis=0)
    return fine & turns.all(axis=0) & (laps == 1), bounds
