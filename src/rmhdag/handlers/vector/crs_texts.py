"""Texts of coordinate systems in vector files, found by our own code before GDAL reads them.

GDAL compares a layer's system with those that it knows as soon as it opens a file, and PROJ then opens the files that
the text names. So no text that points to one may reach GDAL.
"""

from __future__ import annotations

import html
import json
import mmap
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rmhdag.handlers.raster.crs_text import find_pointer
from rmhdag.handlers.vector.refusals import VectorRefused

MOST_CHARACTERS = 100_000
MOST_SYSTEMS = 10_000
PIECE_BYTES = 1024 * 1024
LINE_ENDS = re.compile(r"[\r\n\0]+")
# What GDAL takes for the name of a file, or for an address to fetch.
PATH = re.compile(r"[/\\~.@<]|dict:|\w+://(?!(?:www\.)?opengis\.net/)", re.IGNORECASE)

# GDAL finds the member in any case; letters may be escaped. Only the first quote is passed over, so that the second one
# may begin another name. Spaces have no end, and are matched apart: a piece may end within them.
CRS_NAME = re.compile(rb"""["'](?=((?:[cC]|\\u00[46]3)(?:[rR]|\\u00[57]2)(?:[sS]|\\u00[57]3)["']))""")
MOST_NAME_BYTES = 20
COLON = re.compile(rb"\s*:\s*")
# Fields of a FlatGeobuf header, and of the system in it.
CRS_FIELD, CRS_TEXTS = 10, (4, 5)
FLATGEOBUF_MAGIC_BYTES = 8
MOST_HEADER_BYTES = 10 * 1024 * 1024

# Strict, because they are looked for in everything that a geodatabase holds.
GDB_POINTING = re.compile(
    r"""\b(?:EXTENSION|PARAMETERFILE|GEOIDMODEL|(?:METHOD|PROJECTION)(?=\s*[\[(]\s*["“]\s*PROJ\b))\s*[\[(]\s*["“]""",
    re.IGNORECASE,
)
GDB_XML = re.compile(rb"W\0?K\0?T", re.IGNORECASE)
GDB_XML_BYTES = 5
GDB_OVERLAP_BYTES = 4096
GDB_CONTEXT = 300


def require_no_pointers(path: Path, name: str, driver: str) -> None:
    """Raises VectorRefused if a coordinate system in the file points to a file or to a transformation."""
    for text in READERS[driver](path, name):
        pointer = pointer_in(text)
        if pointer is not None:
            raise VectorRefused(
                f"the coordinate system of {name} points to a file or to a transformation ({ascii(pointer)[:100]}): "
                "export it again with a plain one, such as EPSG:4326.",
                code="CRS_MISMATCH",
            )


def pointer_in(text: str) -> str | None:
    """The part of a text that points to a file. GDAL takes a text for WKT, PROJJSON, a code or whatever it is like."""
    text = text.strip()
    if len(text) > MOST_CHARACTERS:
        return f"{len(text):,} characters"
    if text.startswith("{"):
        return "\\u" if "\\u" in text else find_pointer(text)
    if match := PATH.match(text):
        return match[0]
    # Lines of a .prj are put together without anything between them.
    return find_pointer(text, may_be_bound=True) or find_pointer(LINE_ENDS.sub("", text), may_be_bound=True)


def no_texts(path: Path, name: str) -> Iterator[str]:
    """KML has one system only."""
    yield from ()


def prj_texts(path: Path, name: str) -> Iterator[str]:
    """Of a shapefile: the file beside it."""
    for file in path.parent.iterdir():
        if file.suffix.lower() == ".prj":
            with file.open("rb") as stream:
                yield stream.read(4 * MOST_CHARACTERS + 1).decode("utf-8", "replace")


def geopackage_texts(path: Path, name: str) -> Iterator[str]:
    """All that its table of systems holds. It must be a plain one: a view could give GDAL another text than us."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as conn:
            conn.text_factory = lambda data: data.decode("utf-8", "replace")
            conn.execute("PRAGMA trusted_schema = OFF")
            tables = conn.execute(
                "SELECT type, rootpage FROM sqlite_master WHERE lower(name) = 'gpkg_spatial_ref_sys'"
            ).fetchall()
            if not tables:
                return
            columns = conn.execute("PRAGMA table_xinfo(gpkg_spatial_ref_sys)").fetchall()
            if len(tables) > 1 or tables[0][0] != "table" or not tables[0][1] or any(column[6] for column in columns):
                raise _unreadable(name, "its table of coordinate systems is not a plain table")
            names = [str(column[1]).replace('"', '""') for column in columns]
            values = ", ".join(f'substr(CAST("{column}" AS TEXT), 1, {MOST_CHARACTERS + 1})' for column in names)
            rows = conn.execute(f"SELECT {values} FROM gpkg_spatial_ref_sys LIMIT {MOST_SYSTEMS + 1}").fetchall()
    except sqlite3.Error as error:
        raise _unreadable(name, str(error)) from None
    if len(rows) > MOST_SYSTEMS:
        raise _unreadable(name, f"it has more than {MOST_SYSTEMS:,} coordinate systems")
    for row in rows:
        for column, value in zip(names, row, strict=True):
            # All others are names, numbers and descriptions.
            if value is not None and column.lower().startswith(("definition", "organization")):
                yield value


def geojson_texts(path: Path, name: str) -> Iterator[str]:
    """Of every member `crs`, wherever it is: the last one, or the one at the end of a large file, may be the one that
    counts.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for start, end in _pieces(data):
            for match in CRS_NAME.finditer(data, start, end + MOST_NAME_BYTES):
                colon = COLON.match(data, match.end(1)) if match.start() < end else None
                if colon is not None and data[colon.end() : colon.end() + 1] == b"{":
                    yield from _member_texts(data[colon.end() : colon.end() + 4 * MOST_CHARACTERS], name)


def _member_texts(window: bytes, name: str) -> Iterator[str]:
    """Of the value with which the window begins, if it is a system."""
    try:
        value, _ = json.JSONDecoder().raw_decode(window.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise _unreadable(name, "a member crs is not valid JSON, or too long") from None
    if {"type", "properties"} <= {member.lower() for member in value}:
        yield from strings_in(value)


def _pieces(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Places from one end of a file to the other. Pages that were looked at leave the memory of the process."""
    for start in range(0, len(data), PIECE_BYTES):
        yield start, min(start + PIECE_BYTES, len(data))
        # Also what was read ahead of the piece before this one.
        data.madvise(mmap.MADV_DONTNEED)


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_in(inner)


def flatgeobuf_texts(path: Path, name: str) -> Iterator[str]:
    with path.open("rb") as file:
        file.seek(FLATGEOBUF_MAGIC_BYTES)
        head = file.read(4)
        size = int.from_bytes(head, "little")
        if size > MOST_HEADER_BYTES:
            raise _unreadable(name, f"its header has {size:,} bytes")
        data = head + file.read(size)
    try:
        # Places in a table are relative to themselves.
        header = 4 + _number("<I", data, 4)
        crs = _field(data, header, CRS_FIELD)
        if crs is None:
            return
        texts = [_field(data, crs, number) for number in CRS_TEXTS]
        for place in texts:
            if place is not None:
                length = _number("<I", data, place)
                yield data[place + 4 : place + 4 + length].decode("utf-8", "replace")
    except struct.error:
        raise _unreadable(name, "its header is damaged") from None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where the table or text begins to which a field of a table leads."""
    fields = table - _number("<i", data, table)
    at = 4 + 2 * number
    if at + 2 > _number("<H", data, fields):
        return None
    offset = _number("<H", data, fields + at)
    if offset == 0:
        return None
    return table + offset + _number("<I", data, table + offset)


def _number(kind: str, data: bytes, place: int) -> int:
    if place < 0:
        raise struct.error
    number: int = struct.unpack_from(kind, data, place)[0]
    return number


def geodatabase_texts(path: Path, name: str) -> Iterator[str]:
    """What points to a file, wherever it is: systems are in XML, in rows, and in descriptions of columns.

    Letters have one byte or two. In XML they may be escaped.
    """
    for file in sorted(path.iterdir()):
        if file.suffix.lower() != ".gdbtable" or not file.stat().st_size:
            continue
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            has_xml = any(GDB_XML.search(data, start, end + GDB_XML_BYTES) for start, end in _pieces(data))
            for start, end in _pieces(data):
                piece = data[start : end + GDB_OVERLAP_BYTES]
                text = piece.replace(b"\0", b"").decode("utf-8", "replace")
                text = html.unescape(text) if has_xml else text
                for match in GDB_POINTING.finditer(text):
                    yield text[match.start() : match.end() + GDB_CONTEXT]


def _unreadable(name: str, reason: str) -> VectorRefused:
    return VectorRefused(
        f"{name} cannot be read ({reason}): check it with ogrinfo, and export it again.", code="VECTOR_UNREADABLE"
    )


READERS: dict[str, Callable[[Path, str], Iterator[str]]] = {
    "GPKG": geopackage_texts,
    "GeoJSON": geojson_texts,
    "GeoJSONSeq": geojson_texts,
    "FlatGeobuf": flatgeobuf_texts,
    "LIBKML": no_texts,
    "ESRI Shapefile": prj_texts,
    "OpenFileGDB": geodatabase_texts,
}
