"""The only way to open a raster that came from outside.

First our own code reads the header and compares it with the file and the limits; then GDAL opens the same file, with a
named driver, without other files and without network access except to this blob. A replacement of the file meanwhile
is detected.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import rasterio
from rasterio._err import CPLE_BaseError, CPLE_OutOfMemoryError
from rasterio.errors import CRSError, NotGeoreferencedWarning, RasterioError
from rasterio.session import Session

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.raster.crs import require_no_files
from rmhdag.handlers.raster.tiff_header import COMPRESSIONS, BadTiff, Directory, ReadAt, TiffHeader, read_header
from rmhdag.handlers.raster_limits import RasterLimits
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.storage import BlobNotFound, OutsideStorage, Storage

DRIVER = "GTiff"
FAR_AWAY = "/vsi"
KEYS_OF_S3 = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region")
# The exceptions of rasterio, its own and GDAL's.
GDAL_ERRORS = (RasterioError, CRSError, CPLE_BaseError, UnicodeDecodeError)
ABOUT_WRITING = re.compile(r"\b(writ(e|ing)|append|flush|no space left)", re.IGNORECASE)
HEADER_PAGE_BYTES = 64 * 1024
# Domains of metadata in which a TIFF can name other files that GDAL would then open.
POINTING_DOMAINS = ("OVERVIEWS", "GEOLOCATION")


class RasterRefused(NonRetryableError):
    """The file is refused; the message says what is wrong and what to do."""

    default_code = "RASTER_UNREADABLE"


class RasterUnreadable(Exception):
    """A remote file cannot be read: it is damaged, or its store does not answer. Worth another attempt."""


class RasterChanged(Exception):
    """The file was replaced while it was read; another attempt reads the new one."""


class OpenedRaster(NamedTuple):
    dataset: rasterio.DatasetReader
    header: TiffHeader


@contextmanager
def open_raster(
    origin: HandlerContext[Any] | Storage,
    address: BlobAddress | BlobRef,
    *,
    limits: RasterLimits | None = None,
    is_read_whole: bool = False,
) -> Iterator[rasterio.DatasetReader]:
    """A raster in storage, checked. A BlobRef must still have the size that it had.

    If the caller reads the whole file, the hash must match too: one more pass costs little in comparison.
    """
    with open_with_header(origin, address, limits=limits, is_read_whole=is_read_whole) as opened:
        yield opened.dataset


@contextmanager
def open_with_header(
    origin: HandlerContext[Any] | Storage,
    address: BlobAddress | BlobRef,
    *,
    limits: RasterLimits | None = None,
    is_read_whole: bool = False,
) -> Iterator[OpenedRaster]:
    """The same, with the header that our own code has read."""
    storage = origin.storage if isinstance(origin, HandlerContext) else origin
    place = address.address if isinstance(address, BlobRef) else address
    limits = limits or RasterLimits.from_variables()
    try:
        info = storage.info(place)
    except BlobNotFound as error:
        raise RasterRefused(
            f"there is no file {place}: check its name, its container and its zone", code="FILE_NOT_FOUND"
        ) from error
    except OutsideStorage as error:
        raise RasterRefused(str(error), code="INVALID_PARAMETER") from error
    if isinstance(address, BlobRef) and info.size_bytes != address.size_bytes:
        raise RasterRefused(
            f"{place} has {info.size_bytes:,} bytes and had {address.size_bytes:,} when it was checked: "
            "it was replaced; submit it again",
            code="VALIDATION_ERROR",
        )
    if is_read_whole and isinstance(address, BlobRef) and storage.sha256(place) != address.sha256:
        raise RasterRefused(
            f"{place} is not what it was when it was checked: it was replaced; submit it again", code="VALIDATION_ERROR"
        )
    with storage.gdal_source(place) as source:
        with _readable(storage, place, source.path) as (read_at, size_bytes):
            header = check_header(read_at, size_bytes, str(place), limits)
        with (
            _environment({**limits.gdal_options(), **source.options}),
            _opened(source.path, str(place), header) as dataset,
        ):
            if size_bytes != info.size_bytes or storage.info(place).etag != info.etag:
                raise _changed(place)
            yield OpenedRaster(dataset, header)
    if storage.info(place).etag != info.etag:
        raise _changed(place)


@contextmanager
def open_local(path: Path, *, limits: RasterLimits | None = None) -> Iterator[rasterio.DatasetReader]:
    """The same for a file of our own, which no other process writes."""
    with open_local_with_header(path, limits=limits) as opened:
        yield opened.dataset


@contextmanager
def open_local_with_header(path: Path, *, limits: RasterLimits | None = None) -> Iterator[OpenedRaster]:
    limits = limits or RasterLimits.from_variables()
    with path.open("rb") as file:
        descriptor = file.fileno()
        header = check_header(_reading(descriptor), os.fstat(descriptor).st_size, path.name, limits)
        with _environment(limits.gdal_options()), _opened(str(path), path.name, header) as dataset:
            yield OpenedRaster(dataset, header)


def check_header(read_at: ReadAt, size_bytes: int, name: str, limits: RasterLimits) -> TiffHeader:
    """The file's directories, all of them sound."""
    try:
        return read_header(_paged(read_at, size_bytes), size_bytes, limits)
    except BadTiff as error:
        raise RasterRefused(f"{name} {error}.", code=error.code) from None


@contextmanager
def reading(path: str, name: object) -> Iterator[None]:
    """Wraps reads of the dataset `path`: a decoding error is the file's fault, unless the file is remote.

    Writing happens at the same time, and its errors are not about this file.
    """
    try:
        yield
    except GDAL_ERRORS as error:
        cause = _deepest(error)
        if isinstance(cause, CPLE_OutOfMemoryError):
            raise MemoryError(str(cause)) from error
        if ABOUT_WRITING.search(str(cause)):
            raise
        reason = _reason(cause).replace(path, str(name))
        if path.startswith(FAR_AWAY):
            raise RasterUnreadable(f"{name} cannot be read from its store, or is damaged ({reason})") from error
        raise RasterRefused(
            f"{name} is damaged: it cannot be read ({reason}). Export it again from its source.", code="CORRUPTED_FILE"
        ) from error


class _Credentials(Session):  # type: ignore[misc]
    """S3 keys as environment variables. Rasterio refuses them as options and requires Amazon's library for them."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    @classmethod
    def hascreds(cls, config: object) -> bool:
        return True

    def get_credential_options(self) -> dict[str, str]:
        return self._options


def _environment(options: dict[str, str]) -> rasterio.Env:
    keys = {name.upper(): value for name, value in options.items() if name.lower().startswith(KEYS_OF_S3)}
    others = {name: value for name, value in options.items() if not name.lower().startswith(KEYS_OF_S3)}
    # GDAL's cache of a file is dropped when it is closed: next time the content may differ.
    others["CPL_VSIL_CURL_NON_CACHED"] = "/vsiaz/:/vsis3/"
    return rasterio.Env(_Credentials(keys) if keys else None, **others)


@contextmanager
def _opened(path: str, name: str, header: TiffHeader) -> Iterator[rasterio.DatasetReader]:
    with reading(path, name), warnings.catch_warnings():
        # Callers that need the position check it themselves, with a better message.
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        dataset = rasterio.open(path, driver=DRIVER)
    with dataset:
        # Before any call that lets GDAL search for overviews.
        with reading(path, name):
            pointing = next((domain for domain in POINTING_DOMAINS if dataset.tags(ns=domain)), None)
        if pointing is not None:
            raise RasterRefused(
                f"{name} points to other files (metadata {pointing}), and only the file itself is read. "
                "Rewrite it with `gdal_translate -co COPY_SRC_MDD=NO in.tif out.tif`.",
                code="INVALID_FORMAT",
            )
        _require_same_image(dataset, header.directories[0], name)
        with reading(path, name):
            for crs in (dataset.crs, dataset.gcps[1]):
                require_no_files(crs, name)
        yield dataset


def _require_same_image(dataset: rasterio.DatasetReader, expected: Directory, name: str) -> None:
    """Make sure that GDAL reads the file that was checked."""
    if (dataset.width, dataset.height, dataset.count) != (expected.width, expected.height, expected.bands):
        raise RasterRefused(
            f"{name} is damaged: two readers find images of different size in it. Export it again from its source.",
            code="CORRUPTED_FILE",
        )
    blocks = {tuple(shape) for shape in dataset.block_shapes}
    compression = dataset.tags(ns="IMAGE_STRUCTURE").get("COMPRESSION")
    is_same_block = blocks == {(expected.block_height, expected.block_width)} or expected.is_plain_strip
    if not is_same_block or compression not in COMPRESSIONS[expected.compression].gdal_names:
        raise RasterRefused(
            f"{name} is damaged: two readers find blocks of different size or compression in it. "
            "Export it again from its source.",
            code="CORRUPTED_FILE",
        )


@contextmanager
def _readable(storage: Storage, address: BlobAddress, gdal_path: str) -> Iterator[tuple[ReadAt, int]]:
    """The bytes that GDAL will see."""
    if gdal_path.startswith(FAR_AWAY):
        yield partial(storage.read_range, address), storage.info(address).size_bytes
        return
    descriptor = os.open(gdal_path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _reading(descriptor), os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def _reading(descriptor: int) -> ReadAt:
    return lambda offset, length: os.pread(descriptor, length, offset)


def _paged(read_at: ReadAt, size_bytes: int) -> ReadAt:
    """Headers are read in many small steps, mostly forward: one page in memory saves calls over the network."""
    page_offset, page = 0, b""

    def read(offset: int, length: int) -> bytes:
        nonlocal page_offset, page
        if not page_offset <= offset <= offset + length <= page_offset + len(page):
            page_offset = offset
            page = read_at(offset, max(0, min(size_bytes - offset, max(length, HEADER_PAGE_BYTES))))
        start = offset - page_offset
        return page[start : start + length]

    return read


def _deepest(error: BaseException) -> BaseException:
    """The exception with the cause; rasterio wraps GDAL's own message in `see previous exception`."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return error


def _reason(error: BaseException) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "a text in it is not UTF-8"
    return mask_and_cut(" ".join(str(error).split()), 300)


def _changed(address: BlobAddress) -> RasterChanged:
    return RasterChanged(f"{address} was replaced while it was read: finish uploading before you submit it")
