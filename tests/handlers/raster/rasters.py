"""Rasters that tests make, and handlers run on them without a platform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import Affine, from_origin

from rmhdag.handlers import HandlerResult
from rmhdag.testing import HandlerBench, Recording

UTM = "EPSG:32633"
WGS84 = "EPSG:4326"
TEN_METRES = from_origin(500_000, 5_000_000, 10, 10)


class Bench(HandlerBench):
    """With parameters as keywords."""

    def run(self, handler: str, recording: Recording | None = None, /, **params: Any) -> HandlerResult:  # type: ignore[override]
        return super().run(handler, params, recording=recording).result

    def output(self, handler: str, **params: Any) -> Any:
        return self.run(handler, **params).output


def write_raster(
    path: Path,
    pixels: NDArray[Any],
    *,
    crs: str | None = UTM,
    transform: Affine = TEN_METRES,
    nodata: float | None = None,
    **options: Any,
) -> Path:
    stack = pixels if pixels.ndim == 3 else pixels[np.newaxis]
    count, height, width = stack.shape
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=width,
        height=height,
        count=count,
        dtype=stack.dtype,
        crs=crs,
        transform=transform,
        nodata=nodata,
        **options,
    ) as target:
        target.write(stack)
    return path


def hills(height: int = 600, width: int = 700, *, dtype: str = "float32", bands: int = 1) -> NDArray[Any]:
    """Smooth, without symmetry, and never 0: a shift by one pixel shows."""
    rows, columns = np.mgrid[0:height, 0:width]
    layers = [
        100 + 40 * np.sin(rows / (31 + band)) + 30 * np.cos(columns / 47) + (rows * 0.02 + columns * 0.03)
        for band in range(bands)
    ]
    return np.stack(layers).astype(dtype)


def read(path: Path, **options: Any) -> NDArray[Any]:
    with rasterio.open(path, **options) as dataset:
        return np.asarray(dataset.read())
