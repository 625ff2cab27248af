"""Fractal noise as a function of place: a window of it does not depend on the windows around it.

So a raster of any size is created block by block, and neighbouring files fit without a seam. Only element-wise
arithmetic is used: the same seed gives the same bytes on every machine, which matrix products do not guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
# The standard deviation of uniform noise in -1…1 after smoothing by cubic B-splines in both directions.
SPREAD = np.float32(0.277)
LEAST_SPACING = 4.0


@dataclass(frozen=True, slots=True)
class Window:
    """Pixels from (`top`, `left`), in the coordinates of the scene; these may be negative."""

    top: int
    left: int
    height: int
    width: int

    def grown(self, pixels: int) -> Window:
        return Window(self.top - pixels, self.left - pixels, self.height + 2 * pixels, self.width + 2 * pixels)


def fractal(window: Window, seed: int, salt: int, coarsest: float, *, gain: float = 0.5, ridged: bool = False) -> Field:
    """Octaves of noise, each half as wide and `gain` times as strong as the one before; spread about 1 around 0.

    `ridged` ones have sharp crests instead of round hills, and lie between 0 and about 1.
    """
    total = np.zeros((window.height, window.width), np.float32)
    spacing, weight, weights, squares, number = coarsest, 1.0, 0.0, 0.0, 0
    while number == 0 or spacing >= LEAST_SPACING:
        octave = smooth(window, spacing, seed, salt * 64 + number)
        if ridged:
            np.abs(octave, out=octave)
            np.subtract(np.float32(1), octave, out=octave)
        octave *= np.float32(weight)
        total += octave
        weights += weight
        squares += weight * weight
        spacing, weight, number = spacing / 2, weight * gain, number + 1
    total /= np.float32(weights if ridged else squares**0.5)
    return total


def smooth(window: Window, spacing: float, seed: int, salt: int) -> Field:
    """One octave: random values on a lattice, joined by cubic B-splines. Columns first, for few rows of them."""
    rows, row_weights = taps(window.top, window.height, spacing)
    columns, column_weights = taps(window.left, window.width, spacing)
    lattice = (
        random_values(np.arange(rows[0], rows[-1] + 4), np.arange(columns[0], columns[-1] + 4), seed, salt) / SPREAD
    )
    across = blend(np.ascontiguousarray(lattice.T), columns - columns[0], column_weights)
    return blend(np.ascontiguousarray(across.T), rows - rows[0], row_weights)


def taps(start: int, count: int, spacing: float) -> tuple[NDArray[np.int64], Field]:
    """For each pixel the first of the four lattice points around it, and their weights."""
    place = (np.arange(start, start + count, dtype=np.float64) + 0.5) / spacing
    first = np.floor(place)
    t = place - first
    weights = np.stack([(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]) / 6
    return first.astype(np.int64), weights.astype(np.float32)


def blend(lines: Field, first: NDArray[np.int64], weights: Field) -> Field:
    out = lines[first]
    out *= weights[0][:, None]
    for number in range(1, 4):
        line = lines[first + number]
        line *= weights[number][:, None]
        out += line
    return out


def random_values(rows: NDArray[np.int64], columns: NDArray[np.int64], seed: int, salt: int) -> Field:
    """-1…1, a function of row, column, seed and salt alone."""
    key = mix(mix(np.array([salt], np.uint64)) ^ np.uint64(seed & 0xFFFFFFFFFFFFFFFF))
    mixed = mix(mix(rows.astype(np.uint64) ^ key)[:, None] ^ columns.astype(np.uint64)[None, :])
    return (mixed >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)


def mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: neighbours come out unlike each other. Arrays of integers wrap around without a warning."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
