"""Which format a file has: by its name, and its content must agree. Nothing is opened by a library here."""

from __future__ import annotations

import struct
from enum import StrEnum
from pathlib import Path, PurePosixPath

from rmhdag.handlers.vector.refusals import VectorRefused

HEAD_BYTES = 8192


class Format(StrEnum):
    CSV = "csv"
    GEOJSON = "geojson"
    GEOJSONSEQ = "geojsonseq"
    GPKG = "gpkg"
    KML = "kml"
    KMZ = "kmz"
    ZIP = "zip"
    FLATGEOBUF = "fgb"
    GEOPARQUET = "parquet"


EXTENSIONS = {
    "csv": Format.CSV,
    "tsv": Format.CSV,
    "geojson": Format.GEOJSON,
    "json": Format.GEOJSON,
    "geojsonl": Format.GEOJSONSEQ,
    "geojsons": Format.GEOJSONSEQ,
    "geojsonseq": Format.GEOJSONSEQ,
    "ndjson": Format.GEOJSONSEQ,
    "jsonl": Format.GEOJSONSEQ,
    "gpkg": Format.GPKG,
    "kml": Format.KML,
    "kmz": Format.KMZ,
    "zip": Format.ZIP,
    "fgb": Format.FLATGEOBUF,
    "parquet": Format.GEOPARQUET,
    "geoparquet": Format.GEOPARQUET,
}
REFUSED = {
    "shp": "a shapefile is several files: put its .shp, .shx, .dbf and .prj into one .zip",
    "shx": "it is one file of a shapefile: put its .shp, .shx, .dbf and .prj into one .zip",
    "dbf": "it is one file of a shapefile: put its .shp, .shx, .dbf and .prj into one .zip",
    "gdb": "a File Geodatabase is a folder: put the whole folder into one .zip",
    "xlsx": "save the sheet as CSV",
    "xls": "save the sheet as CSV",
    "pbf": "convert it to GeoPackage, for example with ogr2ogr out.gpkg in.osm.pbf",
    "osm": "convert it to GeoPackage, for example with ogr2ogr out.gpkg in.osm",
    "gml": "convert it to GeoPackage, for example with ogr2ogr out.gpkg in.gml",
    "tab": "convert it to GeoPackage, for example with ogr2ogr out.gpkg in.tab",
    "dxf": "convert it to GeoPackage with a coordinate reference system",
}
# What a file is by its first bytes, for the sentence that says so.
MAGIC = (
    (b"PK\x03\x04", "a ZIP archive"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"fgb", "a FlatGeobuf file"),
    (b"PAR1", "a Parquet file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"%PDF", "a PDF document"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x00\x00\x27\x0a", "a bare shapefile"),
)


def named_format(name: str, extension: str | None) -> Format:
    """The format that the name says; raises VectorRefused for all others."""
    ending = (extension or PurePosixPath(name).suffix).lower().removeprefix(".")
    if ending == "shp" and extension is not None:
        # A label of a zipped shapefile.
        ending = "zip"
    named = EXTENSIONS.get(ending)
    if named is None:
        accepted = ", ".join(f".{word}" for word in EXTENSIONS)
        advice = REFUSED.get(ending, f"accepted are {accepted}")
        raise VectorRefused(f"{name} is not accepted: {advice}.", code="INVALID_FORMAT")
    return named


def check_content(path: Path, name: str, named: Format) -> None:
    """Raises VectorRefused if the content is something else than the name says."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise VectorRefused(f"{name} is empty: upload it again.", code="VECTOR_NO_FEATURES")
    fault = _content_fault(named, head)
    if fault is not None:
        raise VectorRefused(
            f"{name} is not {_described(named)} but {fault}: rename it, or export it as {named.upper()}.",
            code="VECTOR_FORMAT_MISMATCH",
        )


def _content_fault(named: Format, head: bytes) -> str | None:
    """What the content is, if it cannot be what the name says."""
    kind = next((words for magic, words in MAGIC if head.startswith(magic)), None)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n\x1e")
    is_markup = text[:1] == b"<"
    words = kind or ("an HTML page" if _is_html(text) else "an XML document" if is_markup else "something else")
    match named:
        case Format.ZIP | Format.KMZ:
            return None if head.startswith(b"PK\x03\x04") else words
        case Format.GPKG:
            return None if is_geopackage(head) else words
        case Format.FLATGEOBUF:
            return None if head.startswith(b"fgb\x03") else words
        case Format.GEOPARQUET:
            return None if head.startswith(b"PAR1") else words
        case Format.GEOJSON | Format.GEOJSONSEQ:
            return None if text[:1] == b"{" else words if kind or is_markup else "no JSON object"
        case Format.KML:
            return words if not is_markup or _is_html(text) else None
        case Format.CSV:
            return words if kind or is_markup or b"\x00" in head.removesuffix(b"\x00") else None


def is_geopackage(head: bytes) -> bool:
    """By the application id; older writers left it empty and set only the magic."""
    if not head.startswith(b"SQLite format 3\x00") or len(head) < 72:
        return False
    (application_id,) = struct.unpack(">I", head[68:72])
    return application_id in (0x47504B47, 0x47503130, 0x47503131, 0)


def _is_html(text: bytes) -> bool:
    start = text[:512].lower()
    return start.startswith((b"<!doctype html", b"<html")) or b"<html" in start


def _described(named: Format) -> str:
    return {
        Format.CSV: "a CSV file",
        Format.GEOJSON: "GeoJSON",
        Format.GEOJSONSEQ: "a sequence of GeoJSON features",
        Format.GPKG: "a GeoPackage",
        Format.KML: "KML",
        Format.KMZ: "KMZ",
        Format.ZIP: "a ZIP archive",
        Format.FLATGEOBUF: "FlatGeobuf",
        Format.GEOPARQUET: "GeoParquet",
    }[named]
