"""One band of a raster as exactextract reads it, without hidden pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from exactextract.raster import RasterSource
from rasterio.io import DatasetReader
from rasterio.windows import Window

from rmhdag.handlers.raster.georeferencing import Bounds, bounds_of
from rmhdag.handlers.raster.writing import Pixels, alpha_band

WIDER = {1: "int16", 2: "int32", 4: "int64"}


class BandSource(RasterSource):  # type: ignore[misc]
    """Exactextract loses masks if a zone ends inside the window that it reads, so hidden pixels get a value.

    It is NaN, or the greatest integer of a type twice as wide; 64-bit integers have no wider type.
    """

    def __init__(self, dataset: DatasetReader, band: int) -> None:
        super().__init__()
        self._dataset, self._band = dataset, band
        self._scale, self._offset = dataset.scales[band - 1], dataset.offsets[band - 1]
        alpha = alpha_band(dataset)
        self._alpha = None if alpha == band else alpha
        self._dtype = self._read_dtype()
        self._nothing = math.nan if self._dtype.kind == "f" else int(np.iinfo(self._dtype).max)

    def res(self) -> tuple[float, float]:
        return abs(self._dataset.transform.a), abs(self._dataset.transform.e)

    def extent(self) -> Bounds:
        return bounds_of(self._dataset)

    def srs_wkt(self) -> str:
        return str(self._dataset.crs.wkt)

    def nodata_value(self) -> float | int:
        return self._nothing

    def read_window(self, x0: int, y0: int, nx: int, ny: int) -> Pixels:
        """The raster's extent with north up and west left, whichever way it is stored."""
        right_to_left, south_up = self._dataset.transform.a < 0, self._dataset.transform.e > 0
        x = self._dataset.width - x0 - nx if right_to_left else x0
        y = self._dataset.height - y0 - ny if south_up else y0
        pixels = self._stored(Window(x, y, nx, ny))
        return np.ascontiguousarray(pixels[:: -1 if south_up else 1, :: -1 if right_to_left else 1])

    def _stored(self, window: Window) -> Pixels:
        values: Pixels = self._dataset.read(self._band, window=window)
        hidden = self._hidden(values, window)
        pixels = values.astype(self._dtype)
        if self._is_scaled:
            pixels = pixels * self._scale + self._offset
        pixels[hidden] = self._nothing
        return pixels

    def _hidden(self, values: Pixels, window: Window) -> Pixels:
        if self._alpha is not None:
            hidden = self._dataset.read(self._alpha, window=window) == 0
        else:
            hidden = self._dataset.read_masks(self._band, window=window) == 0
        nodata = self._dataset.nodatavals[self._band - 1]
        # If there is a mask or alpha band, GDAL ignores nodata.
        return np.asarray(hidden if nodata is None else hidden | (values == nodata))

    @property
    def _is_scaled(self) -> bool:
        return (self._scale, self._offset) != (1.0, 0.0)

    def _read_dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self._dataset.dtypes[self._band - 1])
        if self._is_scaled:
            return np.dtype("float64")
        if dtype.kind == "f":
            return np.dtype("float32") if dtype.itemsize < 4 else dtype
        return np.dtype(WIDER.get(dtype.itemsize, dtype))
