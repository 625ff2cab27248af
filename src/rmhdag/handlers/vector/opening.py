"""The only way to open a vector file that came from outside: a private copy, checked by our own code, then one reader.

Only in the children of workers. The copy lies in a folder of its own, so that nothing beside it is ever read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.vector.archives import Archive
from rmhdag.handlers.vector.csv_files import GeometryColumns, open_csv
from rmhdag.handlers.vector.damage import require_whole_shapefile
from rmhdag.handlers.vector.formats import Format, check_content, named_format
from rmhdag.handlers.vector.geojson import MOST_BYTES, NO_IDS, check_geojson, check_geojson_sequence
from rmhdag.handlers.vector.geojson_members import to_sequence
from rmhdag.handlers.vector.geoparquet import open_geoparquet
from rmhdag.handlers.vector.kml import check_kml
from rmhdag.handlers.vector.layers import Layer
from rmhdag.handlers.vector.ogr import EXPECTED_DRIVER, GEODATABASE, SHAPEFILE, open_layers, open_sequence
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.handlers.vector_limits import MEGABYTE, VectorLimits
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.storage import BlobNotFound, OutsideStorage

SHAPEFILE_PARTS = (".shx", ".dbf")
SHAPEFILE_EXTRAS = (".prj", ".cpg")


class VectorChanged(Exception):
    """The file was replaced while it was copied; another attempt reads the new one."""


class OpenedFile(NamedTuple):
    layers: list[Layer]
    format: str
    source: BlobRef


class Wish(NamedTuple):
    """What the order says about the file."""

    extension: str | None = None
    layer_names: list[str] | None = None
    geometry: GeometryColumns = GeometryColumns()


@contextmanager
def open_vector(
    ctx: HandlerContext[Any], address: BlobAddress | BlobRef, wish: Wish, limits: VectorLimits | None = None
) -> Iterator[OpenedFile]:
    """The layers of a file in storage. Raises VectorRefused for everything that is wrong with it."""
    limits = limits or VectorLimits.from_variables()
    place = address.address if isinstance(address, BlobRef) else address
    name = PurePosixPath(place.path).name
    # Before a byte is copied.
    if PurePosixPath(name).suffix.lower() == ".shp":
        raise VectorRefused(
            f"{name} is one file of a shapefile: put its .shp, .shx, .dbf and .prj into one .zip.",
            code="INVALID_FORMAT",
        )
    file_format = named_format(name, wish.extension)
    try:
        info = ctx.storage.info(place)
    except BlobNotFound as error:
        raise VectorRefused(
            f"there is no file {place}: check its name, its container and its zone.", code="FILE_NOT_FOUND"
        ) from error
    except OutsideStorage as error:
        raise VectorRefused(str(error), code="INVALID_PARAMETER") from error
    if info.size_bytes > limits.vector_max_file_mb * MEGABYTE:
        raise VectorRefused(
            f"{place} has {info.size_bytes / MEGABYTE:,.0f} MB, and at most {limits.vector_max_file_mb:,} MB are "
            "accepted (RMHDAG_VECTOR_MAX_FILE_MB): split it.",
            code="FILE_TOO_LARGE",
        )
    folder = ctx.scratch / "source"
    folder.mkdir()
    local = folder / f"source{PurePosixPath(place.path).suffix.lower()}"
    source = ctx.storage.download(place, local)
    if source.size_bytes != info.size_bytes or ctx.storage.info(place).etag != info.etag:
        raise VectorChanged(f"{place} was replaced while it was read: finish uploading before you submit it")
    if isinstance(address, BlobRef) and source.sha256 != address.sha256:
        raise VectorRefused(f"{place} was replaced since it was checked: submit it again.", code="VALIDATION_ERROR")
    check_content(local, name, file_format)
    layers, label = _open(local, folder, name, file_format, wish, limits)
    yield OpenedFile(layers, label, source)


def _open(
    local: Path, folder: Path, name: str, file_format: Format, wish: Wish, limits: VectorLimits
) -> tuple[list[Layer], str]:
    ids = NO_IDS
    match file_format:
        case Format.CSV:
            return [open_csv(local, name, wish.geometry, limits)], file_format
        case Format.GEOPARQUET:
            return [open_geoparquet(local, name, limits)], file_format
        case Format.KMZ:
            return _open_kmz(Archive(local, name, limits), folder, name, wish, limits), file_format
        case Format.ZIP:
            return _open_zip(Archive(local, name, limits), folder, name, wish, limits)
        case Format.KML:
            check_kml(local, name)
        case Format.GEOJSON if local.stat().st_size > MOST_BYTES:
            return _open_large_geojson(local, folder, name, wish, limits), file_format
        case Format.GEOJSON:
            ids = check_geojson(local, name)
        case Format.GEOJSONSEQ:
            return [_open_sequence(local, name, wish, limits)], file_format
        case _:
            pass
    named = local.with_suffix(f".{file_format}")
    local.rename(named)
    layers = open_layers(named, name, EXPECTED_DRIVER[file_format], wish.layer_names, limits, ids=ids)
    return layers, file_format


def _open_sequence(local: Path, name: str, wish: Wish, limits: VectorLimits) -> Layer:
    layer = PurePosixPath(name).stem
    if wish.layer_names not in (None, [layer]):
        raise VectorRefused(f"{name} has one layer, {layer[:100]!r}: leave layer_name out.", code="INVALID_PARAMETER")
    count, ids = check_geojson_sequence(local, name)
    if not count:
        raise VectorRefused(f"{name} has no features: check the export.", code="VECTOR_NO_FEATURES")
    return open_sequence(local, name, layer, count, limits, ids=ids)


def _open_large_geojson(local: Path, folder: Path, name: str, wish: Wish, limits: VectorLimits) -> list[Layer]:
    """As a sequence; name and system of the layer are those of a small document with the same frame."""
    named = local.with_suffix(".geojson")
    local.rename(named)
    sequence = to_sequence(named, name)
    if sequence is None:
        return open_layers(named, name, EXPECTED_DRIVER[Format.GEOJSON], wish.layer_names, limits)
    sample = folder / "sample" / named.name
    sample.parent.mkdir()
    sample.write_bytes(sequence.sample)
    (described,) = open_layers(sample, name, EXPECTED_DRIVER[Format.GEOJSON], wish.layer_names, limits)
    layer = open_sequence(named, name, described.name, sequence.feature_count, limits, ids=sequence.ids)
    return [replace(layer, crs=described.crs)]


def _open_kmz(archive: Archive, folder: Path, name: str, wish: Wish, limits: VectorLimits) -> list[Layer]:
    documents = archive.ending(".kml")
    if len(documents) != 1:
        raise VectorRefused(
            f"{name} has {len(documents) or 'no'} KML files, and one is expected: put one .kml into it.",
            code="INVALID_FORMAT",
        )
    (path,) = archive.unpack(documents, folder / "kmz", ["doc.kml"])
    check_kml(path, name)
    return open_layers(path, name, EXPECTED_DRIVER[Format.KML], wish.layer_names, limits)


def _open_zip(archive: Archive, folder: Path, name: str, wish: Wish, limits: VectorLimits) -> tuple[list[Layer], str]:
    databases = {
        "/".join(parts[: index + 1])
        for info in archive.entries
        for parts in [PurePosixPath(info.filename).parts]
        for index, part in enumerate(parts[:-1])
        if part.lower().endswith(".gdb")
    }
    shapes = archive.ending(".shp")
    if len(databases) == 1 and not shapes:
        (root,) = databases
        inside = [info for info in archive.entries if info.filename.startswith(f"{root}/")]
        flat = [f"data.gdb/{PurePosixPath(info.filename).name}" for info in inside]
        archive.unpack(inside, folder / "gdb", flat)
        return open_layers(folder / "gdb" / "data.gdb", name, GEODATABASE, wish.layer_names, limits), "gdb"
    if len(shapes) != 1:
        inside_names = ", ".join(repr(info.filename[:60]) for info in archive.entries[:5])
        raise VectorRefused(
            f"{name} has {len(shapes) or 'no'} shapefiles, and one is expected (it has {inside_names or 'nothing'}): "
            "put the .shp, .shx, .dbf and .prj of one shapefile, or one folder .gdb, into it.",
            code="INVALID_FORMAT",
        )
    return _open_shapefile(archive, shapes[0].filename, folder, name, wish, limits), "shp"


def _open_shapefile(
    archive: Archive, shape: str, folder: Path, name: str, wish: Wish, limits: VectorLimits
) -> list[Layer]:
    stem = shape[: -len(".shp")].lower()
    parts = {
        suffix: info
        for suffix in (".shp", *SHAPEFILE_PARTS, *SHAPEFILE_EXTRAS)
        for info in archive.entries
        if info.filename.lower() == stem + suffix
    }
    missing = [suffix for suffix in SHAPEFILE_PARTS if suffix not in parts]
    if missing:
        raise VectorRefused(
            f"{name} lacks {' and '.join(missing)} of {PurePosixPath(shape).name!r}: put all files of the shapefile "
            "into the ZIP.",
            code="INVALID_FORMAT",
        )
    plain = PurePosixPath(shape).stem
    plain = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in plain)[:100] or "layer"
    archive.unpack(list(parts.values()), folder / "shapefile", [plain + suffix for suffix in parts])
    path = folder / "shapefile" / f"{plain}.shp"
    require_whole_shapefile(path, name)
    return open_layers(path, name, SHAPEFILE, wish.layer_names, limits)
