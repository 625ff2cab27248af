"""Examines the pixels of a raster: how many are missing, and which values are implausible.

The work is bounded for rasters of any size; only a raster that seems to be empty is read as a whole.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.windows import Window

from rmhdag.handlers.raster.findings import Finding, warn
from rmhdag.handlers.raster.writing import ProgressCallback, plan_like, windows_of
from rmhdag.models.handler_result import DataWarning

# How many pixels are sampled to estimate the share without data.
SAMPLE_PIXELS = 4_000_000
SAMPLE_BLOCKS = 64
# From this share without data, a raster counts as nearly empty.
NEARLY_EMPTY = 0.9
# Values that programs write for missing data, and no measurement is likely to give.
SENTINELS = frozenset({-999.0, -9999.0, -99999.0, -32767.0, -32768.0, 65535.0})
LEAST_SENTINEL_SHARE = 0.001
EXTREME = 1e30

Pixels = NDArray[Any]


class PixelLook(NamedTuple):
    """`share` is that of pixels without data."""

    share: float
    is_estimate: bool
    warnings: tuple[DataWarning, ...]


def look_at_pixels(dataset: rasterio.DatasetReader, nodata: float | None, tell: ProgressCallback) -> PixelLook:
    """Values of the first band; whether the raster is empty is decided by all pixels of all bands."""
    pieces, is_estimate = _sample(dataset)
    values = _Values(nodata)
    for window, shape in pieces:
        values.add(dataset.read(1, window=window, out_shape=shape, masked=True))
    share = values.missing / values.total
    warnings = values.warnings()
    if share >= NEARLY_EMPTY:
        share, is_estimate = _share_of_all(dataset, nodata, tell), False
    if share >= NEARLY_EMPTY:
        warnings.append(warn(Finding.EMPTY, "nine tenths of the pixels or more have no data"))
    return PixelLook(share, is_estimate, tuple(warnings))


class _Values:
    """Of one band, piece by piece."""

    def __init__(self, nodata: float | None) -> None:
        self._nodata = nodata
        self.total = self.missing = 0
        self._masked_by_value = self._undeclared_nan = self._extreme = 0
        self._low, self._high = math.inf, -math.inf
        self._sentinels: dict[float, int] = {}

    def add(self, data: Any) -> None:
        empty, plain = without_data(data, self._nodata), np.ma.getdata(data)
        if self._nodata is not None:
            self._masked_by_value += int((plain == self._nodata).sum())
        if plain.dtype.kind == "f" and not _is_nan(self._nodata):
            self._undeclared_nan += int((np.isnan(plain) & ~np.ma.getmaskarray(data)).sum())
        self.total += empty.size
        self.missing += int(empty.sum())
        self._add_valid(plain[~empty])

    def _add_valid(self, valid: Pixels) -> None:
        if valid.dtype.kind == "f" and valid.size:
            far = np.abs(valid) >= EXTREME
            if far.any():
                self._extreme += int(far.sum())
                valid = valid[~far]
        # A value for missing data is the least or the greatest of all.
        for end in (np.min, np.max):
            if not valid.size:
                return
            value = float(end(valid))
            if value in SENTINELS:
                those = valid == end(valid)
                self._sentinels[value] = self._sentinels.get(value, 0) + int(those.sum())
                valid = valid[~those]
        if valid.size:
            self._low, self._high = min(self._low, float(valid.min())), max(self._high, float(valid.max()))

    def warnings(self) -> list[DataWarning]:
        warnings = []
        if self._undeclared_nan:
            text = "it has pixels that are not a number (NaN) without declaring NaN as nodata; they count as no data"
            warnings.append(warn(Finding.NODATA_UNDECLARED, text))
        for value, count in sorted(self._sentinels.items()):
            if count >= LEAST_SENTINEL_SHARE * self.total and self._stands_apart(value):
                text = (
                    f"many pixels have the value {value:g}, which looks like missing data but is not the nodata value: "
                    f"if it is, order it again with `nodata={value:g}`; statistics count it as a measurement"
                )
                warnings.append(warn(Finding.NODATA_SUSPECTED, text))
        if self._extreme:
            text = (
                "it has values of 1e30 and more, which look like an undeclared nodata value: declare it, as with "
                "`gdal_edit.py -a_nodata`; statistics count it as a measurement"
            )
            warnings.append(warn(Finding.EXTREME_VALUES, text))
        if self._masked_by_value and self._nodata is not None and self._low < self._nodata < self._high:
            text = (
                f"the nodata value {self._nodata:g} lies between the values of the data: pixels that really have it "
                "count as no data; give another `nodata` if they should not"
            )
            warnings.append(warn(Finding.NODATA_CONFLICT, text))
        return warnings

    def _stands_apart(self, value: float) -> bool:
        """Farther from all other values than these are from each other. A mask of 0 and 65535 does not count."""
        span = self._high - self._low
        if span < 0:
            return True
        gap = self._low - value if value < self._low else value - self._high
        return gap > span and (span > 0 or value < 0)


def without_data(data: Any, nodata: float | None) -> Pixels:
    """Which pixels of a masked array have no data: by the file's mask, by the given value, or as NaN."""
    empty, plain = np.ma.getmaskarray(data), np.ma.getdata(data)
    if nodata is not None and not math.isnan(nodata):
        empty = empty | (plain == nodata)
    if plain.dtype.kind == "f":
        empty = empty | np.isnan(plain)
    return np.asarray(empty)


def _share_of_all(dataset: rasterio.DatasetReader, nodata: float | None, tell: ProgressCallback) -> float:
    """The share of pixels without data in all bands. Reading ends as soon as there is clearly enough data."""
    total = dataset.width * dataset.height
    read_pixels = missing = 0
    for window in windows_of(plan_like(dataset), dataset.block_shapes[0][0]):
        tell(read_pixels / total, "looking for pixels with data")
        empty = np.ones((window.height, window.width), dtype=bool)
        for band in dataset.indexes:
            empty &= without_data(dataset.read(band, window=window, masked=True), nodata)
            if not empty.any():
                break
        read_pixels += empty.size
        missing += int(empty.sum())
        if read_pixels - missing > (1 - NEARLY_EMPTY) * total:
            break
    return missing / read_pixels


def _is_nan(nodata: float | None) -> bool:
    return nodata is not None and math.isnan(nodata)


def _sample(dataset: rasterio.DatasetReader) -> tuple[list[tuple[Window, tuple[int, int]]], bool]:
    """Windows to read, with the size to read them in. The work is bounded, however large the raster is."""
    width, height = dataset.width, dataset.height
    rows, columns = dataset.block_shapes[0]
    whole = Window(0, 0, width, height)
    overview = next((factor for factor in dataset.overviews(1) if width * height / factor**2 <= SAMPLE_PIXELS), None)
    if width * height <= SAMPLE_PIXELS:
        return [(whole, (height, width))], False
    if overview is not None:
        return [(whole, (max(1, height // overview), max(1, width // overview)))], True
    down, across = -(-height // rows), -(-width // columns)
    count = max(1, min(SAMPLE_BLOCKS, down * across, SAMPLE_PIXELS // (rows * columns)))
    pieces = []
    for number in range(count):
        row, column = divmod((2 * number + 1) * down * across // (2 * count), across)
        window = Window(column * columns, row * rows, columns, rows).intersection(whole)
        # A strip can be as large as the raster; a part of it costs as much as all of it, but less memory.
        width_read = min(int(window.width), SAMPLE_PIXELS)
        height_read = max(1, min(int(window.height), SAMPLE_PIXELS // width_read))
        window = Window(window.col_off, window.row_off, width_read, height_read)
        pieces.append((window, (height_read, width_read)))
    return pieces, True
