"""`raster.validate`: is this file fit to be worked on, and what is it?"""

from __future__ import annotations

import hashlib
import math
from typing import Any, NamedTuple

import numpy as np
import rasterio
from pydantic import Field
from rasterio.windows import Window
from rio_cogeo.cogeo import cog_validate

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.raster.georeferencing import NotOnEarth, georeference_of
from rmhdag.handlers.raster.opening import OpenedRaster, RasterRefused, open_with_header, reading
from rmhdag.handlers.raster_limits import MEGABYTE
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import SourceParams
from rmhdag.models.blobs import BlobRef
from rmhdag.storage import BlobInfo
from rmhdag.storage.zones import media_type_of

# How much is looked at to tell how many pixels have no data.
SAMPLE_PIXELS = 4_000_000
SAMPLE_BLOCKS = 64
HASH_PIECE_BYTES = 8 * MEGABYTE
REMEDY = "give the right value by the parameter `nodata`, or set it as with `gdal_edit.py -a_nodata 0`"


class ValidateParams(SourceParams):
    nodata: float | None = Field(
        default=None, allow_inf_nan=False, description="The value that means no data, instead of what the file says"
    )


class NodataShare(NamedTuple):
    share: float
    is_estimate: bool
    has_undeclared_nan: bool


@handler("raster.validate", aliases=["raster_validate"])
def validate(ctx: HandlerContext[ValidateParams]) -> dict[str, Any]:
    """Checks a GeoTIFF that came in: is it whole, where does it lie, what is in it, is it a COG?

    Files that cannot be worked on fail with a sentence that says why; what is merely unwise is listed as problems.
    """
    params = ctx.params
    address = params.address
    place = address.address if isinstance(address, BlobRef) else address
    with open_with_header(ctx, address) as opened, reading(opened.dataset.name, place):
        dataset = opened.dataset
        ctx.progress(0, 4, "header is sound")
        described = describe(opened, place, params.nodata)
        ctx.progress(1, 4, "looking for pixels without data")
        nodata = described["nodata"]
        share = nodata_share(dataset, nodata)
        ctx.progress(2, 4, "checking the layout")
        is_cog, reasons = cog_reasons(dataset)
        ctx.progress(3, 4, "taking the hash")
        info = ctx.storage.info(place)
        source = address if isinstance(address, BlobRef) else None
        sha256 = content_hash(ctx, info)
    if source is not None and source.sha256 != sha256:
        raise RasterRefused(f"{place} is not the file it was when it was checked before: submit it again.")
    problems = [*described.pop("warnings"), *reasons]
    if share.has_undeclared_nan:
        problems.append("it has pixels that are no number (NaN), but does not say that these mean no data")
    if share.share == 1.0:
        problems.append("no pixel of the first band has data" + (", as far as was looked" if share.is_estimate else ""))
    return {
        **described,
        "file_size_mb": round(info.size_bytes / MEGABYTE, 6),
        "blob_url": ctx.storage.url(place),
        "is_cog": is_cog,
        "problems": problems,
        "nodata_share": round(share.share, 6),
        "nodata_share_is_estimate": share.is_estimate,
        "source": BlobRef(
            zone=place.zone,
            container=place.container,
            path=place.path,
            size_bytes=info.size_bytes,
            sha256=sha256,
            media_type=media_type_of(place.path),
        ).model_dump(mode="json"),
    }


def content_hash(ctx: HandlerContext[Any], info: BlobInfo) -> str:
    """Of what is there, whatever hash somebody may have noted beside it: outputs are named after this one."""
    digest = hashlib.sha256()
    for offset in range(0, info.size_bytes, HASH_PIECE_BYTES):
        digest.update(ctx.storage.read_range(info.address, offset, HASH_PIECE_BYTES))
        ctx.progress(3 + offset / info.size_bytes, 4, "taking the hash")
    return digest.hexdigest()


def describe(opened: OpenedRaster, name: object, nodata: float | None = None) -> dict[str, Any]:
    """What the header says; raises RasterRefused if that cannot be worked with."""
    dataset = opened.dataset
    try:
        found = georeference_of(dataset)
    except NotOnEarth as error:
        raise RasterRefused(f"{name} {error}.") from None
    warnings = list(found.warnings)
    if dataset.subdatasets:
        warnings.append(f"the file holds {len(dataset.subdatasets)} images, and only the first is used")
    types = sorted(set(dataset.dtypes))
    if len(types) > 1:
        raise RasterRefused(f"{name} has bands of different types ({', '.join(types)}): split it by bands.")
    (dtype,) = types
    if dtype.startswith("complex"):
        raise RasterRefused(f"{name} has complex numbers as pixels: export amplitude and phase as two bands.")
    overviews = [int(factor) for factor in dataset.overviews(1)]
    if min(overviews, default=1) < 1:
        raise RasterRefused(
            f"{name} is damaged: its overviews are larger than itself. Export it again from its source."
        )
    declared = dataset.nodata
    if nodata is not None:
        check_nodata(nodata, dtype, name)
        declared = nodata
    elif (written := opened.header.directories[0].nodata) is not None:
        check_nodata(written, dtype, name)
    return {
        "crs": found.crs,
        "bounds": list(found.bounds),
        "bounds_wgs84": list(found.bounds_wgs84),
        "resolution": list(found.resolution),
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
        "warnings": warnings,
    }


def check_nodata(nodata: float | str, dtype: str, name: object) -> None:
    """A value that no pixel can have is a mistake of whoever wrote it; we do not guess which was meant."""
    try:
        value = float(nodata)
    except ValueError:
        raise RasterRefused(
            f"{name} says that {str(nodata)[:40]!r} means no data, which is no number: {REMEDY}."
        ) from None
    if np.dtype(dtype).kind == "f":
        return
    limits = np.iinfo(dtype)
    if not (math.isfinite(value) and value == int(value) and limits.min <= value <= limits.max):
        raise RasterRefused(
            f"{name} says that the value {value:g} means no data, but its pixels are {dtype} "
            f"({limits.min} to {limits.max}) and cannot have it: {REMEDY}."
        )


def nodata_share(dataset: rasterio.DatasetReader, nodata: float | str | None) -> NodataShare:
    """Of the first band: exactly if it is small, else from an overview or from blocks spread over it."""
    value = math.nan if nodata == "nan" else nodata
    assert not isinstance(value, str)
    total = missing = undeclared = 0
    pieces, is_estimate = _sample(dataset)
    for window, shape in pieces:
        data = dataset.read(1, window=window, out_shape=shape, masked=True)
        empty = np.ma.getmaskarray(data)
        plain = np.ma.getdata(data)
        if value is not None and not math.isnan(value):
            empty = empty | (plain == value)
        if plain.dtype.kind == "f":
            not_a_number = np.isnan(plain)
            undeclared += int((not_a_number & ~empty).sum())
            empty = empty | not_a_number
        total += empty.size
        missing += int(empty.sum())
    is_declared = value is not None and math.isnan(value)
    return NodataShare(missing / total, is_estimate, undeclared > 0 and not is_declared)


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
        # A strip can be as high as the raster; a few of its rows cost as much as all of them, but less memory.
        height_read = max(1, min(int(window.height), SAMPLE_PIXELS // int(window.width) or 1))
        window = Window(window.col_off, window.row_off, window.width, height_read)
        pieces.append((window, (height_read, int(window.width))))
    return pieces, True


def cog_reasons(dataset: rasterio.DatasetReader) -> tuple[bool, list[str]]:
    """Whether it is a Cloud Optimized GeoTIFF, and what speaks against it."""
    is_cog, errors, warnings = cog_validate(dataset.name, quiet=True)
    return bool(is_cog), [f"not a COG: {text}" for text in errors] + [f"COG: {text}" for text in warnings]
