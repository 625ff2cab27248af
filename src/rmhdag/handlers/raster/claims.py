"""What an order says about a raster, compared with the file: a wrong file is noticed before it is published."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from rasterio.io import DatasetReader

from rmhdag.handlers.raster.crs import crs_name, read_crs
from rmhdag.handlers.raster.opening import RasterRefused

RasterType = Literal[
    "rgb",
    "rgba",
    "nir",
    "dem",
    "categorical",
    "multispectral",
    "continuous",
    "vegetation_index",
    "flood_depth",
    "flood_probability",
    "hydrology",
    "population",
    "temporal",
]


class Shape(NamedTuple):
    """How many bands a type of raster has, and what their pixels may be; without `pixels`, anything."""

    least_bands: int
    most_bands: int | None
    pixels: tuple[str, ...] = ()


PICTURE = ("uint8", "uint16")
ONE_BAND = Shape(1, 1)
SHAPES: dict[str, Shape] = {
    "rgb": Shape(3, 3, PICTURE),
    "rgba": Shape(4, 4, PICTURE),
    "nir": Shape(4, 4, PICTURE),
    "multispectral": Shape(5, None),
}


def check_claims(dataset: DatasetReader, crs: str | None, raster_type: RasterType | None, name: object) -> None:
    """Raises RasterRefused."""
    if crs is not None:
        _check_crs(dataset, crs, name)
    if raster_type is not None:
        _check_type(dataset, raster_type, name)


def _check_crs(dataset: DatasetReader, crs: str, name: object) -> None:
    if dataset.crs is None:
        raise RasterRefused(
            f"{name} has no coordinate reference system, and the order says {crs}: write it into the file, as with "
            f"`gdal_edit.py -a_srs {crs}`, and order it again.",
            code="CRS_MISSING",
        )
    claim = read_crs(crs)
    # By their meaning: the same system may be written in many ways.
    if claim != dataset.crs and crs_name(claim) != crs_name(dataset.crs):
        raise RasterRefused(
            f"{name} is in {_short(crs_name(dataset.crs))}, and the order says {crs}: leave out `crs` to use that of "
            "the file, or order the right file.",
            code="CRS_MISMATCH",
        )


def _check_type(dataset: DatasetReader, raster_type: RasterType, name: object) -> None:
    shape = SHAPES.get(raster_type, ONE_BAND)
    bands, dtype = dataset.count, dataset.dtypes[0]
    if bands < shape.least_bands or (shape.most_bands is not None and bands > shape.most_bands):
        number = str(shape.least_bands) if shape.most_bands is not None else f"at least {shape.least_bands}"
        plural = "" if number == "1" else "s"
        raise RasterRefused(
            f"{name} has {bands} band{'s' if bands > 1 else ''}, and the order calls it {raster_type}, which has "
            f"{number} band{plural}: correct `raster_type`, or leave it out.",
            code="RASTER_TYPE_MISMATCH",
        )
    if shape.pixels and dtype not in shape.pixels:
        raise RasterRefused(
            f"{name} has {dtype} as pixels, and the order calls it {raster_type}, which has "
            f"{' or '.join(shape.pixels)}: correct `raster_type`, or leave it out.",
            code="RASTER_TYPE_MISMATCH",
        )
    if raster_type == "categorical" and np.dtype(dtype).kind == "f":
        raise RasterRefused(
            f"{name} has {dtype} as pixels, and the order calls it categorical: classes are whole numbers. Convert it, "
            "as with `gdal_translate -ot Byte`, or correct `raster_type`.",
            code="RASTER_TYPE_MISMATCH",
        )


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
