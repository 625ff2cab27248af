"""Writes a sample as a GeoTIFF: block by block, so that memory does not grow with its size, and atomically."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import rasterio
from rasterio.enums import ColorInterp
from rasterio.transform import Affine
from rasterio.windows import Window as RasterWindow

from rmhdag.sampledata.kinds import DATETIME, LEAST_SIZE, MOST_SIZE, Content, Sample
from rmhdag.sampledata.noise import Window
from rmhdag.sampledata.scenes import BANDS, CLASSES, DTYPES, REFLECTANCE_SCALE, SCENES

BLOCK = 512
CACHE_MB = 32
COLOURS = (ColorInterp.blue, ColorInterp.green, ColorInterp.red, ColorInterp.undefined)


def write_sample(
    path: Path, sample: Sample, size: int, seed: int, progress: Callable[[float], None] = lambda share: None
) -> None:
    """`size` pixels along each side. The file appears under its name when it is complete."""
    if not LEAST_SIZE <= size <= MOST_SIZE:
        raise ValueError(f"the size is {size}: a sample has {LEAST_SIZE} to {MOST_SIZE} pixels along each side")
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with rasterio.Env(GDAL_CACHEMAX=CACHE_MB, GDAL_TIFF_INTERNAL_MASK=True):
            fill(draft, sample, size, seed, progress)
        draft.replace(path)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def fill(draft: Path, sample: Sample, size: int, seed: int, progress: Callable[[float], None]) -> None:
    bands = BANDS[sample.content]
    scene = SCENES[sample.content]
    extent = size * sample.siblings
    # Each place on Earth has a landscape of its own.
    seed ^= zlib.crc32(sample.crs.encode())
    with rasterio.open(draft, "w", **profile_of(sample, size)) as raster:
        describe(raster, sample, bands)
        areas = list(blocks(size, tiled=sample.tiled))
        for number, (top, left, height, width) in enumerate(areas, 1):
            window = Window(top + sample.row * size, left + sample.column * size, height, width)
            raster.write(
                scene(window, seed, extent, size, sample.nodata), window=RasterWindow(left, top, width, height)
            )
            progress(number / len(areas))


def profile_of(sample: Sample, size: int) -> dict[str, object]:
    pixel = sample.pixel_at(size)
    west, north = sample.west + sample.column * size * pixel, sample.north - sample.row * size * pixel
    profile: dict[str, object] = {
        "driver": "GTiff",
        "width": size,
        "height": size,
        "count": len(BANDS[sample.content]),
        "dtype": DTYPES[sample.content],
        "crs": sample.crs,
        "transform": Affine(pixel, 0, west, 0, -pixel, north),
        "nodata": sample.nodata,
        "BIGTIFF": "IF_SAFER",
    }
    if sample.tiled and size >= BLOCK:
        profile |= {"tiled": True, "blockxsize": BLOCK, "blockysize": BLOCK}
    if sample.compress:
        profile["compress"] = sample.compress
        profile["predictor"] = 3 if DTYPES[sample.content] == "float32" else 2
    if sample.compress == "deflate":
        profile["zlevel"] = 1
    return profile


def describe(raster: rasterio.io.DatasetWriter, sample: Sample, bands: tuple[str, ...]) -> None:
    raster.update_tags(TIFFTAG_DATETIME=DATETIME, TIFFTAG_SOFTWARE="rmhdag sample-data", AREA_OR_POINT="Area")
    for number, name in enumerate(bands, 1):
        raster.set_band_description(number, name)
    if sample.content is Content.ELEVATION:
        raster.units = ("m",)
    elif sample.content is Content.REFLECTANCE:
        raster.colorinterp = COLOURS
        raster.scales = (REFLECTANCE_SCALE,) * len(bands)
    else:
        raster.write_colormap(1, {number: colour for number, (_, colour) in CLASSES.items()})
        raster.update_tags(1, **{f"CLASS_{number}": name for number, (name, _) in CLASSES.items()})


def blocks(size: int, *, tiled: bool) -> Iterator[tuple[int, int, int, int]]:
    """Windows in the order of the file: squares of whole blocks, or strips of about as many pixels."""
    width = 2 * BLOCK if tiled else size
    height = 2 * BLOCK if tiled else max(1, min(BLOCK, BLOCK * BLOCK * 4 // size))
    for top in range(0, size, height):
        for left in range(0, size, width):
            yield top, left, min(height, size - top), min(width, size - left)
