"""Settings of handlers: the largest raster and vector file, what GDAL may use, and the shared folder."""

from dataclasses import fields
from pathlib import Path

from pydantic import Field

from rmhdag.handlers.raster_limits import RasterLimits
from rmhdag.handlers.vector_limits import VectorLimits
from rmhdag.models.setting_types import SettingsGroup


class RasterConfiguration(SettingsGroup):
    """Fields that are limits have the names of RasterLimits; workers pass them on to their children."""

    raster_max_file_mb: int = Field(default=128 * 1024, ge=1, description="Largest raster file, in MB")
    raster_max_pixels: int = Field(
        default=20_000_000_000, ge=1, description="Largest raster in pixels, width times height"
    )
    raster_max_bands: int = Field(default=1_000, ge=1, le=65_535, description="Most bands of a raster")
    raster_max_block_mb: int = Field(
        default=256, ge=1, description="Largest decompressed block of a raster, in MB; blocks are read whole"
    )
    raster_max_decoded_mb: int = Field(default=1024 * 1024, ge=1, description="Largest decompressed raster, in MB")
    raster_max_ratio: int = Field(
        default=2_000,
        ge=1,
        description="Largest ratio of decompressed size to file size, for rasters above 4 GB decompressed",
    )
    gdal_cache_mb: int = Field(default=128, ge=8, le=65_536, description="GDAL's cache per task, in MB (GDAL_CACHEMAX)")
    gdal_threads: int = Field(
        default=1,
        ge=1,
        le=256,
        description="GDAL's threads for compression and decompression, per task (GDAL_NUM_THREADS)",
    )
    gdal_drivers: str = Field(
        default="",
        pattern=r"^[\w .,-]*$",
        description="Additional GDAL drivers for your own handlers, separated by commas; rmhdag's handlers do not "
        "use them",
    )
    mount: Path | None = Field(
        default=None, description="Folder shared by the workers, to which raster.blob_to_mount copies files"
    )

    def raster_limits(self) -> RasterLimits:
        return RasterLimits(**{field.name: getattr(self, field.name) for field in fields(RasterLimits)})


class VectorConfiguration(SettingsGroup):
    """Fields have the names of VectorLimits; workers pass them on to their children."""

    vector_max_file_mb: int = Field(default=5 * 1024, ge=1, description="Largest vector file, in MB")
    vector_max_unpacked_mb: int = Field(
        default=10 * 1024,
        ge=1,
        description="Largest unpacked size of a zipped shapefile, KMZ or File Geodatabase, in MB",
    )
    vector_max_columns: int = Field(default=1_000, ge=1, le=1_500, description="Most columns of a vector layer")
    vector_max_feature_mb: int = Field(
        default=200, ge=1, le=1_000, description="Largest geometry of a single feature, in MB"
    )
    vector_batch_mb: int = Field(
        default=8,
        ge=1,
        le=1_024,
        description="Features are read in batches of about this size, in MB; it bounds the memory that a task needs",
    )

    def vector_limits(self) -> VectorLimits:
        return VectorLimits(**{field.name: getattr(self, field.name) for field in fields(VectorLimits)})
