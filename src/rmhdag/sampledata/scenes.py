"""The content of a window of the invented world: heights, light, plants, classes of land."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rmhdag.sampledata.kinds import Content
from rmhdag.sampledata.noise import Field, Window, fractal, random_values

Pixels = NDArray[np.float32] | NDArray[np.uint16] | NDArray[np.uint8]

BANDS: dict[Content, tuple[str, ...]] = {
    Content.ELEVATION: ("elevation",),
    Content.REFLECTANCE: ("blue", "green", "red", "nir"),
    Content.CLASSES: ("landcover",),
}
DTYPES = {Content.ELEVATION: "float32", Content.REFLECTANCE: "uint16", Content.CLASSES: "uint8"}
REFLECTANCE_SCALE = 0.0001

# Blue, green, red, near infrared.
WATER = np.array([0.060, 0.045, 0.025, 0.010], np.float32)
SOIL = np.array([0.090, 0.130, 0.190, 0.260], np.float32)
PLANTS = np.array([0.025, 0.055, 0.030, 0.420], np.float32)
SNOW = np.array([0.780, 0.790, 0.770, 0.700], np.float32)

CLASSES: dict[int, tuple[str, tuple[int, int, int, int]]] = {
    1: ("water", (0, 100, 200, 255)),
    2: ("forest", (0, 100, 0, 255)),
    3: ("grass", (255, 255, 76, 255)),
    4: ("crops", (240, 150, 255, 255)),
    5: ("built-up", (250, 0, 0, 255)),
    6: ("bare", (180, 180, 180, 255)),
    7: ("snow", (240, 240, 240, 255)),
}
SNOW_LINE = 1900.0
TREE_LINE = 1300.0


def heights(window: Window, seed: int, extent: int) -> Field:
    """Metres above the sea; below 0 is sea. `extent` is how many pixels a mountain range is wide."""
    land = fractal(window, seed, 1, extent / 3)
    land += np.float32(0.6)
    crests = fractal(window, seed, 2, extent / 5, gain=0.55, ridged=True)
    np.clip(crests, 0, None, out=crests)
    crests += np.float32(0.25)
    # Flat at the coast, steep inland.
    metres: Field = np.where(land > 0, land * np.sqrt(np.abs(land)), land) * crests * np.float32(1400)
    return metres


def light(ground: Field, pixel_metres: float) -> Field:
    """How bright the sun in the north-west makes the ground; `ground` has one pixel more on each side."""
    east = (ground[1:-1, 2:] - ground[1:-1, :-2]) / np.float32(2 * pixel_metres)
    south = (ground[2:, 1:-1] - ground[:-2, 1:-1]) / np.float32(2 * pixel_metres)
    lit: Field = np.float32(0.7) + east * np.float32(0.5) + south * np.float32(0.5)
    lit /= np.sqrt(1 + east * east + south * south)
    np.clip(lit, 0.15, 1.3, out=lit)
    return lit


def elevation(window: Window, seed: int, extent: int, size: int, nodata: float | None) -> Pixels:
    ground = heights(window, seed, extent)
    sea = ground <= 0
    ground[sea] = np.float32(0 if nodata is None else nodata)
    return ground[None]


def reflectance(window: Window, seed: int, extent: int, size: int, nodata: float | None) -> Pixels:
    ground = heights(window.grown(1), seed, extent)
    lit = light(ground, 6_000 / extent * 10)
    ground = ground[1:-1, 1:-1]
    plants = np.clip(fractal(window, seed, 3, extent / 6, gain=0.6) * np.float32(0.35) + np.float32(0.5), 0, 1)
    plants *= np.clip((np.float32(SNOW_LINE) - ground) / np.float32(900), 0, 1)
    snow = np.clip((ground - np.float32(SNOW_LINE)) / np.float32(200), 0, 1)
    grain = np.float32(1) + grain_of(window, seed) * np.float32(0.02)
    outside = np.zeros(ground.shape, bool) if nodata is None else outside_of_swath(window, size)
    bands = np.empty((4, *ground.shape), np.uint16)
    for number in range(4):
        value = SOIL[number] + (PLANTS[number] - SOIL[number]) * plants
        value = (value + (SNOW[number] - value) * snow) * lit
        value = np.where(ground > 0, value, WATER[number]) * grain
        bands[number] = np.clip(value / np.float32(REFLECTANCE_SCALE), 1, 10_000)
        bands[number][outside] = 0
    return bands


def classes(window: Window, seed: int, extent: int, size: int, nodata: float | None) -> Pixels:
    ground = heights(window, seed, extent)
    plants = fractal(window, seed, 3, extent / 6, gain=0.6)
    people = fractal(window, seed, 4, extent / 12, gain=0.7)
    codes = np.full(ground.shape, 3, np.uint8)
    codes[plants > 0.2] = 2
    codes[(people > 0.7) & (ground < 700)] = 4
    codes[(people > 1.6) & (ground < 500)] = 5
    codes[(plants < -1.3) | (ground > TREE_LINE)] = 6
    codes[ground > SNOW_LINE] = 7
    codes[ground <= 0] = 1
    return codes[None]


def grain_of(window: Window, seed: int) -> Field:
    """The sensor's own noise, a value per pixel."""
    rows = np.arange(window.top, window.top + window.height)
    columns = np.arange(window.left, window.left + window.width)
    return random_values(rows, columns, seed, 5 * 64)


def outside_of_swath(window: Window, size: int) -> NDArray[np.bool_]:
    """A satellite's picture lies askew in its file: corners hold nothing."""
    rows = (np.arange(window.top, window.top + window.height, dtype=np.float32) % size)[:, None] / np.float32(size)
    columns = (np.arange(window.left, window.left + window.width, dtype=np.float32) % size)[None, :] / np.float32(size)
    across, along = columns + rows * np.float32(0.2), rows - columns * np.float32(0.2)
    outside: NDArray[np.bool_] = (across < 0.2) | (across > 1.0) | (along < -0.15) | (along > 0.95)
    return outside


SCENES: dict[Content, Callable[[Window, int, int, int, float | None], Pixels]] = {
    Content.ELEVATION: elevation,
    Content.REFLECTANCE: reflectance,
    Content.CLASSES: classes,
}
