"""A small picture of a raster: the same file gives the same bytes.

Hides which bands make the picture, the stretch, the colours of a single band, and the decimated read.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image
from rasterio.enums import ColorInterp, Resampling
from rasterio.io import DatasetReader

MOST_PIXELS = 512
PERCENTILES = (2.0, 98.0)
MEDIA_TYPE = "image/webp"

# Dark blue over green to light yellow: brightness grows evenly, so it reads in grey and for the colour-blind.
RAMP = np.frombuffer(bytes.fromhex("440154 46327f 365c8d 277f8e 1fa187 4ac26d 9fda3a fde725"), np.uint8).reshape(-1, 3)


def draw_thumbnail(dataset: DatasetReader) -> bytes:
    """WebP of at most 512 pixels on the longer side; where nothing is valid it is transparent."""
    scale = max(dataset.width, dataset.height, MOST_PIXELS) / MOST_PIXELS
    shape = max(1, round(dataset.height / scale)), max(1, round(dataset.width / scale))
    palette = _palette(dataset)
    if palette is not None:
        values = _read(dataset, 1, shape, Resampling.nearest)
        indexes = np.clip(values.filled(0).astype(np.int64), 0, 255)
        pixels = palette[indexes]
        pixels[..., 3] = np.where(np.ma.getmaskarray(values), 0, pixels[..., 3])
    else:
        bands = _colour_bands(dataset)
        layers = [_read(dataset, band, shape, Resampling.average) for band in bands]
        pixels = np.zeros((*shape, 4), dtype=np.uint8)
        stretched = [_stretched(layer) for layer in layers]
        if len(bands) == 3:
            for place, layer in enumerate(stretched):
                pixels[..., place] = np.round(layer * 255)
        else:
            pixels[..., :3] = _coloured(stretched[0])
        masked = np.all([np.ma.getmaskarray(layer) for layer in layers], axis=0)
        pixels[..., 3] = np.where(masked, 0, 255)
    # Transparent pixels have no colour, so that hidden values do not change the bytes.
    pixels[pixels[..., 3] == 0] = 0
    written = BytesIO()
    Image.fromarray(pixels).save(written, "WEBP", quality=85, method=4)
    return written.getvalue()


def _palette(dataset: DatasetReader) -> Any:
    """The colour table of a classified raster, 256 × RGBA."""
    if dataset.colorinterp[0] != ColorInterp.palette or dataset.dtypes[0] != "uint8":
        return None
    table = np.zeros((256, 4), dtype=np.uint8)
    for value, colour in dataset.colormap(1).items():
        if 0 <= value < 256:
            table[value] = colour
    return table


def _colour_bands(dataset: DatasetReader) -> list[int]:
    """Red, green and blue where the file names them (as colours or by description), else the first band."""
    colours = (ColorInterp.red, ColorInterp.green, ColorInterp.blue)
    if all(colour in dataset.colorinterp for colour in colours):
        return [dataset.colorinterp.index(colour) + 1 for colour in colours]
    names = [(description or "").strip().lower() for description in dataset.descriptions]
    if all(name in names for name in ("red", "green", "blue")):
        return [names.index(name) + 1 for name in ("red", "green", "blue")]
    return [1]


def _read(dataset: DatasetReader, band: int, shape: tuple[int, int], resampling: Resampling) -> Any:
    """Decimated, so from overviews where the file has them; what is not finite counts as not valid."""
    if np.dtype(dataset.dtypes[band - 1]).kind == "c":
        values = np.ma.abs(dataset.read(band, out_shape=shape, masked=True))
    else:
        values = dataset.read(band, out_shape=shape, masked=True, resampling=resampling)
    return np.ma.masked_invalid(values, copy=False) if values.dtype.kind == "f" else values


def _stretched(layer: Any) -> Any:
    """The middle 96 % of the valid values to 0…1."""
    valid = layer.compressed().astype(np.float64)
    if not valid.size:
        return np.zeros(layer.shape)
    low, high = np.percentile(valid, PERCENTILES)
    if not high > low:
        low, high = valid.min(), valid.max()
    if not high > low:
        return np.full(layer.shape, 0.5)
    return np.clip((layer.filled(0).astype(np.float64) - low) / (high - low), 0.0, 1.0)


def _coloured(values: Any) -> Any:
    places = np.linspace(0.0, 1.0, len(RAMP))
    channels = [np.interp(values, places, RAMP[:, channel]) for channel in range(3)]
    return np.round(np.stack(channels, axis=-1)).astype(np.uint8)
