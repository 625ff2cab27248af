"""Settings for what handlers do with rasters; the parent of their processes passes them on."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

if TYPE_CHECKING:
    from rmhdag.handlers.raster_limits import RasterLimits


class RasterSettings(BaseSettings):
    """Named as in RasterLimits."""

    model_config = SettingsConfigDict(populate_by_name=True)

    raster_max_file_mb: int = Field(
        default=128 * 1024,
        ge=1,
        validation_alias=AliasChoices("RMHDAG_RASTER_MAX_FILE_MB"),
        description="A raster that comes in has at most so many MB",
    )
    raster_max_pixels: int = Field(
        default=20_000_000_000,
        ge=1,
        validation_alias=AliasChoices("RMHDAG_RASTER_MAX_PIXELS"),
        description="At most so many pixels, width times height",
    )
    raster_max_bands: int = Field(
        default=1_000,
        ge=1,
        le=65_535,
        validation_alias=AliasChoices("RMHDAG_RASTER_MAX_BANDS"),
        description="At most so many bands",
    )
    raster_max_block_mb: int = Field(
        default=256,
        ge=1,
        validation_alias=AliasChoices("RMHDAG_RASTER_MAX_BLOCK_MB"),
        description="A block, which is read as a whole, takes at most so many MB in memory",
    )
    raster_max_decoded_mb: int = Field(
        default=1024 * 1024,
        ge=1,
        validation_alias=AliasChoices("RMHDAG_RASTER_MAX_DECODED_MB"),
        description="All of it takes at most so many MB when it is unpacked",
    )
    raster_max_ratio: int = Field(
        default=2_000,
        ge=1,
        validation_alias=AliasChoices("RMHDAG_RASTER_MAX_RATIO"),
        description="Unpacked it takes at most so many times the size of the file, if that is more than 4 GB",
    )
    gdal_cache_mb: int = Field(
        default=128,
        ge=8,
        le=65_536,
        validation_alias=AliasChoices("RMHDAG_GDAL_CACHE_MB"),
        description="What GDAL may keep in memory, for each task that a worker runs (GDAL_CACHEMAX)",
    )
    gdal_threads: int = Field(
        default=1,
        ge=1,
        le=256,
        validation_alias=AliasChoices("RMHDAG_GDAL_THREADS"),
        description="Threads with which GDAL packs and unpacks, for each task (GDAL_NUM_THREADS)",
    )
    gdal_drivers: str = Field(
        default="",
        pattern=r"^[\w .,-]*$",
        validation_alias=AliasChoices("RMHDAG_GDAL_DRIVERS"),
        description="Further drivers of GDAL for handlers of your own, separated by commas; ours use none of them",
    )

    mount: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_MOUNT"),
        description="A folder that workers share, into which raster.blob_to_mount copies files",
    )

    def raster_limits(self) -> RasterLimits:
        from rmhdag.handlers.raster_limits import RasterLimits

        return RasterLimits(**{field.name: getattr(self, field.name) for field in fields(RasterLimits)})
