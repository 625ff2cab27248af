"""`raster.validate`: checks whether a file can be processed, and describes it."""

from __future__ import annotations

import hashlib
import math
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.raster.claims import RasterType, check_claims
from rmhdag.handlers.raster.cog_layout import cog_faults
from rmhdag.handlers.raster.crs import CrsText
from rmhdag.handlers.raster.findings import Finding, warn
from rmhdag.handlers.raster.georeferencing import NotOnEarth, georeference_of
from rmhdag.handlers.raster.opening import OpenedRaster, RasterRefused, open_with_header, reading
from rmhdag.handlers.raster.pixels import PixelLook, look_at_pixels
from rmhdag.handlers.raster.writing import watch
from rmhdag.handlers.raster_limits import MEGABYTE
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import SourceParams
from rmhdag.models.blobs import BlobRef
from rmhdag.models.handler_result import DataWarning, HandlerResult
from rmhdag.storage import BlobInfo
from rmhdag.storage.media_types import media_type_of

HASH_PIECE_BYTES = 8 * MEGABYTE
PIXEL_TYPE = "BIT_DEPTH_POLICY_VIOLATION"
REMEDY = "give the right value by the parameter `nodata`, or set it as with `gdal_edit.py -a_nodata 0`"


MostNodata = Annotated[
    float,
    Field(
        gt=0,
        le=100,
        allow_inf_nan=False,
        description="A raster is refused if this percentage of its pixels or more has no data",
    ),
]


class ValidateParams(SourceParams):
    nodata: float | None = Field(
        default=None, allow_inf_nan=False, description="The value that means no data, instead of what the file says"
    )
    most_nodata_percent: MostNodata = 99.0
    crs: CrsText | None = Field(
        default=None, description="What the order says about its coordinate reference system; refused if it has another"
    )
    raster_type: RasterType | None = Field(
        default=None, description="What the order calls it; refused if its bands and pixels do not fit"
    )


@handler("raster.validate", aliases=["raster_validate"])
def validate(ctx: HandlerContext[ValidateParams]) -> HandlerResult:
    """Checks a GeoTIFF that came in: is it whole, where does it lie, what is in it, is it a COG?

    Files that cannot be worked on fail with a sentence that says why. What the person who ordered it should know is a
    warning; `problems` lists the same, and what speaks against its being a COG.
    """
    params = ctx.params
    address = params.address
    place = address.address if isinstance(address, BlobRef) else address
    with open_with_header(ctx, address) as opened, reading(opened.dataset.name, place):
        dataset = opened.dataset
        ctx.progress(0, 4, "header is sound")
        check_claims(dataset, params.crs, params.raster_type, place)
        described, warnings = describe(opened, place, params.nodata)
        ctx.progress(1, 4, "looking for pixels without data")
        nodata = None if described["nodata"] is None else float(described["nodata"])
        look = look_at_pixels(dataset, nodata, watch(ctx, 25, 50))
        require_data(look, params.most_nodata_percent, place)
        ctx.progress(2, 4, "checking the layout")
        is_cog, reasons = cog_reasons(opened)
        ctx.progress(3, 4, "taking the hash")
        info = ctx.storage.info(place)
        source = address if isinstance(address, BlobRef) else None
        sha256 = content_hash(ctx, info)
    if source is not None and source.sha256 != sha256:
        raise RasterRefused(
            f"{place} is not the file it was when it was checked before: submit it again.", code="VALIDATION_ERROR"
        )
    warnings += look.warnings
    output = {
        **described,
        "file_size_mb": round(info.size_bytes / MEGABYTE, 6),
        "blob_url": ctx.storage.url(place),
        "is_cog": is_cog,
        "problems": [*(warning.message for warning in warnings), *reasons],
        "warnings": [warning.model_dump(mode="json") for warning in warnings],
        "nodata_share": round(look.share, 6),
        "nodata_share_is_estimate": look.is_estimate,
        "source": BlobRef(
            zone=place.zone,
            container=place.container,
            path=place.path,
            size_bytes=info.size_bytes,
            sha256=sha256,
            media_type=media_type_of(place.path),
        ).model_dump(mode="json"),
    }
    return HandlerResult(output=output, warnings=tuple(warnings))


def require_data(look: PixelLook, most_percent: float, name: object) -> None:
    """An empty raster is usually a mistake in the export, so it is not published."""
    if look.share == 1.0:
        raise RasterRefused(
            f"{name} is empty: no pixel has data. Check its nodata value, or export it again.", code="RASTER_EMPTY"
        )
    if 100 * look.share >= most_percent:
        raise RasterRefused(
            f"{name} is nearly empty: {100 * look.share:.2f} % of its pixels have no data. Check its nodata value, or "
            "accept that with a larger `most_nodata_percent`.",
            code="RASTER_EMPTY",
        )


def content_hash(ctx: HandlerContext[Any], info: BlobInfo) -> str:
    """The hash of the actual content, whatever the metadata says: outputs are named after it."""
    digest = hashlib.sha256()
    for offset in range(0, info.size_bytes, HASH_PIECE_BYTES):
        digest.update(ctx.storage.read_range(info.address, offset, HASH_PIECE_BYTES))
        ctx.progress(3 + offset / info.size_bytes, 4, "taking the hash")
    return digest.hexdigest()


def describe(
    opened: OpenedRaster, name: object, nodata: float | None = None
) -> tuple[dict[str, Any], list[DataWarning]]:
    """The description from the header; raises RasterRefused if the raster cannot be processed."""
    dataset = opened.dataset
    try:
        georeference = georeference_of(dataset)
    except NotOnEarth as error:
        raise RasterRefused(f"{name} {error}.", code=error.code) from None
    warnings = list(georeference.warnings)
    if dataset.subdatasets:
        warnings.append(warn(Finding.IMAGES_IGNORED, "the file holds several images, and only the first is used"))
    types = sorted(set(dataset.dtypes))
    if len(types) > 1:
        raise RasterRefused(
            f"{name} has bands of different types ({', '.join(types)}): split it by bands.", code=PIXEL_TYPE
        )
    (dtype,) = types
    if dtype.startswith("complex"):
        raise RasterRefused(
            f"{name} has complex numbers as pixels: export amplitude and phase as two bands.", code=PIXEL_TYPE
        )
    overviews = [int(factor) for factor in dataset.overviews(1)]
    if min(overviews, default=1) < 1:
        raise RasterRefused(
            f"{name} is damaged: its overviews are larger than itself. Export it again from its source.",
            code="CORRUPTED_FILE",
        )
    declared = dataset.nodata
    if nodata is not None:
        check_nodata(nodata, dtype, name, code="INVALID_PARAMETER")
        if declared is not None and declared != nodata:
            text = f"the nodata value of the order, {nodata:g}, is used instead of that of the file, {declared:g}"
            warnings.append(warn(Finding.NODATA_OVERRIDE, text))
        declared = nodata
    elif (written := opened.header.directories[0].nodata) is not None:
        check_nodata(written, dtype, name)
    described = {
        "crs": georeference.crs,
        "bounds": list(georeference.bounds),
        "bounds_wgs84": list(georeference.bounds_wgs84),
        "resolution": list(georeference.resolution),
        "width": dataset.width,
        "height": dataset.height,
        "bands": dataset.count,
        "pixels": dataset.width * dataset.height,
        "dtype": dtype,
        # JSON knows no NaN.
        "nodata": "nan" if declared is not None and math.isnan(declared) else declared,
        "block_shape": list(dataset.block_shapes[0]),
        "compression": dataset.compression.value.lower() if dataset.compression else None,
        "overviews": overviews,
    }
    return described, warnings


def check_nodata(nodata: float | str, dtype: str, name: object, code: str = "VALIDATION_ERROR") -> None:
    """A nodata value that no pixel can have is a mistake in the file; we do not guess the intended one."""
    try:
        value = float(nodata)
    except ValueError:
        raise RasterRefused(
            f"{name} says that {str(nodata)[:40]!r} means no data, which is not a number: {REMEDY}.", code=code
        ) from None
    if np.dtype(dtype).kind == "f":
        return
    limits = np.iinfo(dtype)
    if not (math.isfinite(value) and value == int(value) and limits.min <= value <= limits.max):
        raise RasterRefused(
            f"{name} says that the value {value:g} means no data, but its pixels are {dtype} "
            f"({limits.min} to {limits.max}) and cannot have it: {REMEDY}.",
            code=code,
        )


def cog_reasons(opened: OpenedRaster) -> tuple[bool, list[str]]:
    """Whether it is a Cloud Optimized GeoTIFF, and why not."""
    faults = cog_faults(opened)
    return not faults.errors, [f"not a COG: {text}" for text in faults.errors] + [
        f"COG: {text}" for text in faults.warnings
    ]
