"""Small rasters of known content, as COGs in storage."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.io import MemoryFile
from rasterio.shutil import copy
from rasterio.transform import from_origin

from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.storage import Storage

NODATA = -9999.0


def terrain(size: int = 256, bands: int = 1, dtype: str = "float32") -> Any:
    """A hill, the same in every run."""
    y, x = np.mgrid[0:size, 0:size] / size
    hill = 1000 * np.exp(-8 * ((x - 0.5) ** 2 + (y - 0.4) ** 2)) + 100 * x
    return np.stack([hill * (band + 1) for band in range(bands)]).astype(dtype)


def write_cog(
    path: Path,
    values: Any,
    *,
    crs: str | None = "EPSG:32633",
    west: float = 500_000.0,
    north: float = 5_000_000.0,
    pixel: float = 30.0,
    nodata: float | None = None,
    tags: dict[str, str] | None = None,
    descriptions: tuple[str, ...] = (),
    colours: dict[int, tuple[int, int, int, int]] | None = None,
    driver: str = "COG",
    units: str | None = None,
) -> Path:
    bands, height, width = values.shape
    options: dict[str, Any] = {
        "width": width,
        "height": height,
        "count": bands,
        "dtype": values.dtype,
        "nodata": nodata,
    }
    with warnings.catch_warnings(), MemoryFile() as memory:
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with memory.open(
            driver="GTiff", crs=crs, transform=from_origin(west, north, pixel, pixel), **options
        ) as dataset:
            dataset.write(values)
            dataset.update_tags(**(tags or {}))
            for band, description in enumerate(descriptions, 1):
                dataset.set_band_description(band, description)
            if colours is not None:
                dataset.write_colormap(1, colours)
            if units is not None:
                dataset.set_band_unit(1, units)
        with memory.open() as dataset:
            copy(dataset, path, driver=driver, **({"BLOCKSIZE": 128} if driver == "COG" else {"COMPRESS": "DEFLATE"}))
    return path


def keep(storage: Storage, path: Path, item_id: str, mark: str = "0123456789abcdef") -> BlobRef:
    address = BlobAddress(Zone.SILVER, "cogs", f"{item_id}/{item_id}-{mark}.tif")
    return storage.upload(path, address, media_type="image/tiff; application=geotiff; profile=cloud-optimized")
