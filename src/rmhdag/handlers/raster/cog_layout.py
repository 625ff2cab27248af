"""Whether a file is a cloud-optimised GeoTIFF: as rio-cogeo decides, except where it is known to be wrong."""

from __future__ import annotations

from typing import NamedTuple

from rio_cogeo.cogeo import cog_validate

from rmhdag.handlers.raster.opening import OpenedRaster

NOT_TILED = "is not tiled"
NOT_HALVED = "Invalid Decimation 1 "


class CogFaults(NamedTuple):
    errors: list[str]
    warnings: list[str]


def cog_faults(opened: OpenedRaster) -> CogFaults:
    """Errors and warnings of a file as a COG.

    Rio-cogeo mistakes an image for a strip if its tiles are exactly as wide as itself, such as an overview of 512
    pixels, and recognises overviews by their width, which cannot be halved if it is 1.
    """
    _, errors, warnings = cog_validate(opened.dataset.name, quiet=True)
    if all(directory.is_tiled for directory in opened.header.directories):
        errors = [error for error in errors if not error.endswith(NOT_TILED)]
    if opened.dataset.width == 1:
        errors = [error for error in errors if not error.startswith(NOT_HALVED)]
    return CogFaults(errors, warnings)
