"""What the values of a raster's bands are: type, nodata, unit, scale, and their statistics from a bounded read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rasterio.io import DatasetReader

MOST_PIXELS = 1024
HISTOGRAM_BINS = 32
# Names as the raster extension spells them; the others are equal to numpy's.
DATA_TYPES = {"complex_int16": "cint16", "complex64": "cfloat32", "complex128": "cfloat64"}


def describe_bands(dataset: DatasetReader) -> list[dict[str, Any]]:
    """The `raster:bands` of the raster extension (v1.1.0), one object per band."""
    scale = max(dataset.width, dataset.height, MOST_PIXELS) / MOST_PIXELS
    shape = max(1, round(dataset.height / scale)), max(1, round(dataset.width / scale))
    return [_describe(dataset, band, shape) for band in dataset.indexes]


def name_bands(dataset: DatasetReader) -> list[dict[str, Any]]:
    """The `bands` of STAC 1.1: names, and what the file says about each."""
    named = []
    for band in dataset.indexes:
        description = dataset.descriptions[band - 1] or dataset.colorinterp[band - 1].name
        named.append(
            {"name": f"b{band}", "description": description} if description != "undefined" else {"name": f"b{band}"}
        )
    return named


def _describe(dataset: DatasetReader, band: int, shape: tuple[int, int]) -> dict[str, Any]:
    data_type = dataset.dtypes[band - 1]
    described: dict[str, Any] = {"data_type": DATA_TYPES.get(data_type, data_type)}
    sampling = dataset.tags().get("AREA_OR_POINT", "").lower()
    if sampling in ("area", "point"):
        described["sampling"] = sampling
    nodata = dataset.nodatavals[band - 1]
    if nodata is not None and _comes_back(nodata):
        described["nodata"] = number_or_name(nodata)
    if dataset.units[band - 1]:
        described["unit"] = dataset.units[band - 1]
    scaling = {"scale": dataset.scales[band - 1], "offset": dataset.offsets[band - 1]}
    described |= {key: value for key, value in scaling.items() if math.isfinite(value)}
    if dataset.crs is not None and dataset.crs.is_projected:
        resolution = abs(dataset.transform.a) * dataset.crs.linear_units_factor[1]
        if math.isfinite(resolution) and resolution > 0:
            described["spatial_resolution"] = resolution
    if np.dtype(data_type if data_type != "complex_int16" else "complex64").kind != "c":
        described.update(_statistics(dataset.read(band, out_shape=shape, masked=True)))
    return described


def number_or_name(value: float) -> float | int | str:
    """JSON has no NaN: the extension writes `nan`, `inf` and `-inf`."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _comes_back(value: float) -> bool:
    """Whether the database gives it back as a number that JSON here may hold: it writes 1e19 as an integer."""
    return not 2**63 <= abs(value) < 2**64


def _statistics(values: Any) -> dict[str, Any]:
    valid = values.compressed().astype(np.float64)
    valid = valid[np.isfinite(valid)]
    share = {"valid_percent": round(100.0 * valid.size / values.size, 4)}
    if not valid.size:
        return {"statistics": share}
    low, high = float(valid.min()), float(valid.max())
    with np.errstate(over="ignore", invalid="ignore"):
        figures = {"minimum": low, "maximum": high, "mean": float(valid.mean()), "stddev": float(valid.std())}
        span = high - low
    statistics = {key: value for key, value in figures.items() if math.isfinite(value) and _comes_back(value)} | share
    if not (math.isfinite(span) and span > 0 and _comes_back(low) and _comes_back(high)):
        return {"statistics": statistics}
    counts, _ = np.histogram(valid, bins=HISTOGRAM_BINS, range=(low, high))
    histogram = {"count": HISTOGRAM_BINS, "min": low, "max": high, "buckets": counts.tolist()}
    return {"statistics": statistics, "histogram": histogram}
