"""A country cut into districts: neighbours have exactly the same points along their common border."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
# Of a cell. Together small enough that no two borders of a district meet but in its corners.
JITTER = 0.15
SWING = 0.035
POINTS = 16
ENCLAVE_RADIUS = 0.2


def district_shapes(
    random: np.random.Generator, per_side: int, west: float, north: float, side: float
) -> NDArray[np.object_]:
    """`per_side`² districts, and a last one inside of another. Those in the west have an island."""
    corners = corners_of(random, per_side)
    across = borders(random, corners[:, :-1], corners[:, 1:])
    down = borders(random, corners[:-1, :], corners[1:, :])
    enclave = round_shape(random, corners[1:3, 1:3].mean(axis=(0, 1)), ENCLAVE_RADIUS)
    cell = side / per_side

    def placed(ring: Numbers) -> Numbers:
        """From cells to metres, rows from north to south."""
        metres: Numbers = np.stack([west + ring[:, 0] * cell, north - ring[:, 1] * cell], axis=1)
        return np.asarray(np.round(metres, 2), np.float64)

    shapes: list[shapely.Polygon | shapely.MultiPolygon] = []
    for row in range(per_side):
        for column in range(per_side):
            edges = (across[row, column], down[row, column + 1], across[row + 1, column], down[row, column])
            ring = np.concatenate([edges[0][:-1], edges[1][:-1], edges[2][:0:-1], edges[3][:0:-1]])
            holes = [placed(enclave)] if (row, column) == (1, 1) else None
            mainland = shapely.Polygon(placed(ring), holes)
            if column == 0:
                island = round_shape(random, np.array([-0.35, row + 0.5]), 0.12)
                shapes.append(shapely.MultiPolygon([mainland, shapely.Polygon(placed(island))]))
            else:
                shapes.append(mainland)
    shapes.append(shapely.Polygon(placed(enclave)))
    return np.array(shapes, object)


def corners_of(random: np.random.Generator, per_side: int) -> Numbers:
    """Row, column, (x, y) in cells; the outer ones lie on the edge of the country."""
    row, column = np.meshgrid(np.arange(per_side + 1), np.arange(per_side + 1), indexing="ij")
    corners = np.stack([column, row], axis=2).astype(np.float64)
    shift = (random.random(corners.shape) - 0.5) * 2 * JITTER
    shift[[0, -1], :, 1] = 0
    shift[:, [0, -1], 0] = 0
    return corners + shift


def borders(random: np.random.Generator, start: Numbers, end: Numbers) -> Numbers:
    """Row, column, point, (x, y): a winding line between each pair of corners."""
    share = np.linspace(0, 1, POINTS + 1)
    waves = np.stack([np.sin(np.pi * number * share) / number for number in range(1, 5)])
    swing = ((random.random((*start.shape[:2], 4)) - 0.5) * 2 * SWING) @ waves
    way = end - start
    across = np.stack([-way[..., 1], way[..., 0]], axis=-1)
    lines: Numbers = (
        start[:, :, None, :]
        + way[:, :, None, :] * share[None, None, :, None]
        + across[:, :, None, :] * swing[..., None]
    )
    return lines


def round_shape(random: np.random.Generator, centre: Numbers, radius: float) -> Numbers:
    turns = np.linspace(0, 2 * np.pi, 33)[:-1]
    reach = radius * (1 + (random.random(len(turns)) - 0.5) * 0.3)
    points: Numbers = centre + reach[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return points
