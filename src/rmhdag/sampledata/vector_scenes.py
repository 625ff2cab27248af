"""The features of the invented country: districts, roads, buildings and places, on the land of the sample `dem`.

Layers come in batches, so that memory does not grow with the number of features. Only uniform random numbers are
used, and coordinates are rounded to centimetres: the same seed gives the same features on every machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from rmhdag.sampledata.district_shapes import district_shapes
from rmhdag.sampledata.noise import Window
from rmhdag.sampledata.place_names import NAMES, NOTES, ROADS
from rmhdag.sampledata.scenes import heights
from rmhdag.sampledata.vector_kinds import NORTH, SIDE, UTM, WEST, Layer

Numbers = NDArray[np.float64]
Shapes = NDArray[np.object_]
Random = np.random.Generator
# Attributes as they are in Arrow, and geometries as objects of shapely.
Batch = tuple[pa.RecordBatch, Shapes]

BATCH = 20_000
LOT_METRES = 26.0
GROUND = 128  # cells along each side of the square in which towns are founded
FIRST_DAY = date(1990, 1, 1)
DAYS = 12_000
USES = ("residential", "commercial", "industrial", "school", "farm")
CLASSES = ("motorway", "primary", "secondary", "residential")
LANES = {"motorway": 4, "primary": 2, "secondary": 2, "residential": 1}
SPEEDS = {"motorway": 120, "primary": 90, "secondary": 70, "residential": None}


@dataclass(frozen=True, slots=True)
class Towns:
    """Where people live: centre, direction of the streets, and the share of all buildings."""

    centres: Numbers
    angles: Numbers
    weights: Numbers


def batches_of(layer: Layer, features: int, seed: int) -> Iterator[Batch]:
    yield from LAYERS[layer](features, seed)


def schema_of(layer: Layer) -> pa.Schema:
    return SCHEMAS[layer]


def crs_of(layer: Layer) -> str:
    """In which the layer is made."""
    return "EPSG:4326" if layer is Layer.ANTIMERIDIAN else UTM


SCHEMAS = {
    Layer.DISTRICTS: pa.schema(
        {"code": pa.string(), "name": pa.string(), "level": pa.int16(), "population": pa.int64()}
        | {"area_cm2": pa.int64(), "density": pa.float64(), "founded": pa.date32(), "is_capital": pa.bool_()}
        | {"note": pa.string()}
    ),
    Layer.ROADS: pa.schema(
        {"road_id": pa.int32(), "class": pa.string(), "name": pa.string(), "lanes": pa.int16()}
        | {"maxspeed": pa.int16(), "oneway": pa.bool_(), "length_m": pa.float64(), "surveyed": pa.date32()}
    ),
    Layer.BUILDINGS: pa.schema(
        {"building_id": pa.int64(), "use": pa.string(), "floors": pa.int16(), "height_m": pa.float64()}
        | {"year_built": pa.int32(), "has_cellar": pa.bool_(), "surveyed": pa.date32(), "owner": pa.string()}
    ),
    Layer.PLACES: pa.schema(
        {"id": pa.int32(), "name": pa.string(), "script": pa.string(), "population": pa.int64()}
        | {"elevation_m": pa.float64(), "founded": pa.date32(), "observed_at": pa.timestamp("s", tz="UTC")}
        | {"note": pa.string()}
    ),
    Layer.ANTIMERIDIAN: pa.schema(
        {"zone_id": pa.int32(), "name": pa.string(), "claimed": pa.date32(), "depth_m": pa.float64()}
    ),
}


def districts(features: int, seed: int) -> Iterator[Batch]:
    """Areas with common borders; one has a hole with another in it, and some have islands."""
    random = random_of(seed, Layer.DISTRICTS)
    per_side = int(np.clip(round((features / 50) ** 0.5), 4, 60))
    shapes = district_shapes(random, per_side, WEST, NORTH, SIDE)
    count = len(shapes)
    areas = shapely.area(shapes)
    population = (1_000 + random.random(count) ** 4 * 4e6).astype(np.int64)
    columns = {
        "code": [f"D{number:05d}" for number in range(count)],
        "name": [f"{NAMES[number % len(NAMES)][0]} {number // len(NAMES) + 1}" for number in range(count)],
        "level": np.full(count, 2, np.int16),
        "population": population,
        # Needs more than 32 bits.
        "area_cm2": (areas * 10_000).round().astype(np.int64),
        "density": np.round(population / areas * 1e6, 3),
        "founded": days(random, count),
        "is_capital": np.arange(count) == count - 1,
        "note": [NOTES[number % len(NOTES)] if number % 3 == 0 else None for number in range(count)],
    }
    yield batch(Layer.DISTRICTS, columns), shapes


def roads(features: int, seed: int) -> Iterator[Batch]:
    """From town to town, and streets in the towns. Motorways have two carriageways, so they are multi-lines."""
    towns = towns_of(features, seed)
    random = random_of(seed, Layer.ROADS)
    pairs = neighbours(towns.centres)
    longest = shapely.length(shapely.linestrings(towns.centres[pairs]))
    ranks = np.argsort(np.argsort(longest, kind="stable"), kind="stable") / max(1, len(pairs))
    kinds = [CLASSES[0] if rank > 0.85 else CLASSES[1] if rank > 0.4 else CLASSES[2] for rank in ranks]
    lines = [
        carriageways(road) if kind == CLASSES[0] else shapely.linestrings(road)
        for road, kind in zip(bent_lines(random, towns.centres[pairs]), kinds, strict=True)
    ]
    streets = streets_of(towns, max(1, features // 5))
    yield road_batch(random, 0, np.array(lines, object), kinds)
    for start in range(0, len(streets), BATCH):
        some = streets[start : start + BATCH]
        yield road_batch(random, len(lines) + start, some, [CLASSES[3]] * len(some))


def road_batch(random: Random, first: int, lines: Shapes, kinds: list[str]) -> Batch:
    count = len(lines)
    columns = {
        "road_id": np.arange(first + 1, first + count + 1, dtype=np.int32),
        "class": kinds,
        "name": [
            None if number % 7 == 0 else f"{ROADS[number % len(ROADS)]} {number}"
            for number in range(first, first + count)
        ],
        "lanes": np.array([LANES[kind] for kind in kinds], np.int16),
        "maxspeed": [SPEEDS[kind] for kind in kinds],
        "oneway": random.random(count) < 0.2,
        "length_m": np.round(shapely.length(lines), 2),
        "surveyed": days(random, count),
    }
    return batch(Layer.ROADS, columns), lines


def buildings(features: int, seed: int) -> Iterator[Batch]:
    """On lots along the streets of the towns: boxes, L-shapes, and some around a courtyard."""
    towns = towns_of(features, seed)
    counts = np.floor(towns.weights * features).astype(np.int64)
    counts[0] += features - counts.sum()
    town_of = np.repeat(np.arange(len(counts)), counts)
    lot_of = np.concatenate([np.arange(count) for count in counts])
    lots = lots_of(int(counts.max()))
    random = random_of(seed, Layer.BUILDINGS)
    for start in range(0, features, BATCH):
        town, lot = town_of[start : start + BATCH], lot_of[start : start + BATCH]
        count = len(town)
        size = 7 + random.random((count, 2)) * 11
        floors = 1 + (random.random(count) ** 3 * 12).astype(np.int16)
        shapes = building_shapes(random, towns, town, lots[lot], size)
        columns = {
            "building_id": 4_000_000_000 + np.arange(start, start + count, dtype=np.int64),
            "use": [USES[number] for number in (random.random(count) ** 3 * len(USES)).astype(int)],
            "floors": floors,
            "height_m": np.round(floors * 2.9 + random.random(count) * 2, 1),
            "year_built": (1850 + random.random(count) * 175).astype(np.int32),
            "has_cellar": random.random(count) < 0.4,
            "surveyed": days(random, count),
            "owner": [None if share < 0.3 else f"owner {int(share * 9_000)}" for share in random.random(count)],
        }
        yield batch(Layer.BUILDINGS, columns), shapes


def building_shapes(random: Random, towns: Towns, town: NDArray[np.int64], lots: Numbers, size: Numbers) -> Shapes:
    """Outlines around the origin, turned to the streets of their town, moved to their lot."""
    wide, deep = size[:, 0] / 2, size[:, 1] / 2
    kind = random.random(len(town))
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)
    notched = np.array([[-1, -1], [1, -1], [1, 0], [0, 0], [0, 1], [-1, 1]], float)
    sin, cos = np.sin(towns.angles[town]), np.cos(towns.angles[town])

    def placed(outline: Numbers, rows: NDArray[np.bool_], scale: float = 1.0) -> Shapes:
        across = outline[None, :, 0] * wide[rows, None] * scale + lots[rows, 0, None] * LOT_METRES
        along = outline[None, :, 1] * deep[rows, None] * scale + lots[rows, 1, None] * LOT_METRES
        x = across * cos[rows, None] - along * sin[rows, None] + towns.centres[town[rows], 0, None]
        y = across * sin[rows, None] + along * cos[rows, None] + towns.centres[town[rows], 1, None]
        return np.asarray(shapely.linearrings(np.round(np.stack([x, y], axis=2), 2)))

    shapes = np.empty(len(town), object)
    box, yard = kind < 0.7, kind > 0.95
    corner = ~box & ~yard
    shapes[box] = shapely.polygons(placed(corners, box))
    shapes[corner] = shapely.polygons(placed(notched, corner))
    holes = placed(corners[::-1], yard, 0.4)
    shapes[yard] = [
        shapely.polygons(shell, holes=[hole]) for shell, hole in zip(placed(corners, yard), holes, strict=True)
    ]
    return shapes


def places(features: int, seed: int) -> Iterator[Batch]:
    """Points with names in many scripts, dates, gaps, and text that needs quoting."""
    towns = towns_of(features, seed)
    random = random_of(seed, Layer.PLACES)
    count = max(len(NAMES), features // 10)
    town = (random.random(count) ** 2 * len(towns.centres)).astype(np.int64)
    spots = np.round(towns.centres[town] + (random.random((count, 2)) - 0.5) * 4_000, 2)
    now = datetime(2024, 6, 15, 10, 30, tzinfo=UTC)
    seconds = (random.random(count) * 3e8).astype(int)
    columns = {
        "id": np.arange(1, count + 1, dtype=np.int32),
        "name": [NAMES[number % len(NAMES)][0] for number in range(count)],
        "script": [NAMES[number % len(NAMES)][1] for number in range(count)],
        "population": (random.random(count) ** 6 * 3e9).astype(np.int64),
        "elevation_m": [None if share < 0.1 else round(share * 1_900, 1) for share in random.random(count)],
        "founded": days(random, count),
        "observed_at": [
            None if number % 11 == 0 else now - timedelta(seconds=int(ago)) for number, ago in enumerate(seconds)
        ],
        "note": [NOTES[number % len(NOTES)] if number % 4 == 0 else None for number in range(count)],
    }
    yield batch(Layer.PLACES, columns), np.asarray(shapely.points(spots))


def antimeridian(features: int, seed: int) -> Iterator[Batch]:
    """Zones of the sea around the 180th meridian, uncut, as such files come: longitudes beyond 180, longitudes that
    jump from 180 to -180, and one zone that is wide for a good reason.
    """
    random = random_of(seed, Layer.ANTIMERIDIAN)
    count = max(8, features // 200)
    turns = np.linspace(0, 2 * np.pi, 25)[:-1]
    centres = np.stack([177 + random.random(count) * 6, -25 + random.random(count) * 20], axis=1)
    radii = 0.2 + random.random(count) * 0.8
    # The first two cross the meridian whatever the seed is.
    centres[:2, 0], radii[:2] = (179.9, 180.1), 0.6
    wobble = 1 + (random.random((count, len(turns))) - 0.5) * 0.3
    rings = np.round(
        centres[:, None, :]
        + (radii[:, None] * wobble)[:, :, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)[None],
        6,
    )
    rings[1::2, :, 0] = np.where(rings[1::2, :, 0] > 180, rings[1::2, :, 0] - 360, rings[1::2, :, 0]).round(6)
    wide = shapely.polygons(
        [(lon, -60) for lon in range(-175, 176, 50)] + [(lon, -50) for lon in range(175, -176, -50)]
    )
    shapes = np.array([*shapely.polygons(rings), wide], object)
    columns = {
        "zone_id": np.arange(1, count + 2, dtype=np.int32),
        "name": [*(f"{NAMES[number % len(NAMES)][0]} {number + 1}" for number in range(count)), "Southern Ocean"],
        "claimed": days(random, count + 1),
        "depth_m": np.round(random.random(count + 1) * -6_000, 1),
    }
    yield batch(Layer.ANTIMERIDIAN, columns), shapes


def batch(layer: Layer, columns: dict[str, Any]) -> pa.RecordBatch:
    schema = SCHEMAS[layer]
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def random_of(seed: int, layer: Layer) -> Random:
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(layer.encode())]))


def days(random: Random, count: int) -> list[date]:
    return [FIRST_DAY + timedelta(days=int(day)) for day in random.random(count) * DAYS]


def towns_of(features: int, seed: int) -> Towns:
    """On flat land near the sea, where people settle; larger ones first."""
    random = random_of(seed, Layer.PLACES)
    count = int(np.clip(features // 150, 6, 400))
    ground = heights(Window(0, 0, GROUND, GROUND), seed ^ zlib.crc32(UTM.encode()), GROUND)
    liked = np.where(ground > 0, 1 / (1 + np.abs(ground) / 100), 0).astype(np.float64).ravel()
    # A seed may drown the whole country; people then live on stilts.
    liked = liked if np.count_nonzero(liked) >= count else np.ones_like(liked)
    order = np.argsort(-liked * random.random(len(liked)), kind="stable")[:count]
    row, column = np.divmod(np.sort(order), GROUND)
    cell = SIDE / GROUND
    spots = np.stack([column, row], axis=1) + random.random((count, 2))
    centres = np.stack([WEST + spots[:, 0] * cell, NORTH - spots[:, 1] * cell], axis=1)
    sizes = 1 / (1 + np.arange(count) * 0.2)
    return Towns(np.round(centres, 2), random.random(count) * np.pi / 2, sizes / sizes.sum())


def lots_of(count: int) -> Numbers:
    """Around the centre of a town, nearest first; every fifth row and column is a street."""
    reach = int((count * 1.7) ** 0.5 / 1.2) + 6
    steps = np.arange(-reach, reach + 1)
    row, column = (axis.ravel() for axis in np.meshgrid(steps, steps, indexing="ij"))
    free = (row % 5 != 0) & (column % 5 != 0)
    row, column = row[free], column[free]
    nearest = np.lexsort((column, row, row**2 + column**2))[:count]
    return np.stack([column[nearest], row[nearest]], axis=1).astype(np.float64)


def streets_of(towns: Towns, count: int) -> Shapes:
    """Along the free rows and columns between the lots."""
    per_town = max(1, count // len(towns.centres))
    number = np.arange(per_town)
    offset = np.where(number % 4 < 2, 1, -1) * (number // 4) * 5 * LOT_METRES
    half = 6 * LOT_METRES
    along = np.stack([np.full(per_town, -half), np.full(per_town, half)], axis=1)
    across = np.stack([offset, offset], axis=1)
    upright = (number % 2 == 1)[:, None]
    ends = np.stack([np.where(upright, across, along), np.where(upright, along, across)], axis=2)
    sin, cos = np.sin(towns.angles)[:, None, None], np.cos(towns.angles)[:, None, None]
    x = ends[None, :, :, 0] * cos - ends[None, :, :, 1] * sin + towns.centres[:, 0, None, None]
    y = ends[None, :, :, 0] * sin + ends[None, :, :, 1] * cos + towns.centres[:, 1, None, None]
    return np.asarray(shapely.linestrings(np.round(np.stack([x, y], axis=3), 2).reshape(-1, 2, 2)))


def neighbours(centres: Numbers) -> NDArray[np.int64]:
    """Each town with its three nearest, every pair once."""
    gaps = np.hypot(*(centres[:, None, :] - centres[None, :, :]).transpose(2, 0, 1))
    nearest = np.argsort(gaps, axis=1, kind="stable")[:, 1:4]
    pairs = np.stack([np.repeat(np.arange(len(centres)), nearest.shape[1]), nearest.ravel()], axis=1)
    return np.unique(np.sort(pairs, axis=1), axis=0)


def bent_lines(random: Random, ends: Numbers) -> Numbers:
    """Between each pair of ends a line of 17 points that swings from side to side."""
    share = np.linspace(0, 1, 17)
    swing = (random.random((len(ends), 3)) - 0.5) @ np.stack([np.sin(np.pi * k * share) / k for k in (1, 2, 5)])
    way = ends[:, 1] - ends[:, 0]
    side = np.stack([-way[:, 1], way[:, 0]], axis=1) * 0.25
    return np.round(
        ends[:, 0, None, :] + way[:, None, :] * share[None, :, None] + side[:, None, :] * swing[:, :, None], 2
    )


def carriageways(road: Numbers) -> shapely.MultiLineString:
    """Both directions, a few metres apart."""
    return shapely.MultiLineString([road, np.round(road[::-1] + np.array([6.0, -4.0]), 2)])


LAYERS: dict[Layer, Callable[[int, int], Iterator[Batch]]] = {
    Layer.DISTRICTS: districts,
    Layer.ROADS: roads,
    Layer.BUILDINGS: buildings,
    Layer.PLACES: places,
    Layer.ANTIMERIDIAN: antimeridian,
}
