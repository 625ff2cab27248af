"""Warnings about rasters that were accepted, by code.

Warnings are summed over the files of a job, so a message names neither the file nor figures that differ from file to
file; these are in the output of each task.
"""

from __future__ import annotations

from enum import StrEnum

from rmhdag.models.handler_result import DataWarning


class Finding(StrEnum):
    NODATA_UNDECLARED = "RASTER_NODATA_UNDECLARED"
    NODATA_SUSPECTED = "RASTER_NODATA_SUSPECTED"
    NODATA_CONFLICT = "RASTER_NODATA_CONFLICT"
    NODATA_OVERRIDE = "NODATA_OVERRIDE"
    EXTREME_VALUES = "RASTER_EXTREME_VALUES"
    EMPTY = "RASTER_EMPTY"
    SUSPICIOUS_BOUNDS = "SUSPICIOUS_BOUNDS"
    SOUTH_UP = "RASTER_SOUTH_UP"
    ROTATED = "RASTER_ROTATED"
    IMAGES_IGNORED = "RASTER_IMAGES_IGNORED"
    CRS_ASSUMED = "CRS_ASSUMED"
    CRS_HEIGHT_DROPPED = "CRS_HEIGHT_DROPPED"
    DATETIME_ASSUMED = "DATETIME_ASSUMED"


def warn(finding: Finding, message: str, count: int = 1) -> DataWarning:
    return DataWarning(code=finding.value, message=message, count=count)
