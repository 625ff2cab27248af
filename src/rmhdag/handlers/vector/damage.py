"""Files that are damaged or incomplete. GDAL reads them as far as it can and does not say that features are missing."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np

from rmhdag.handlers.vector.refusals import VectorRefused

DBF_HEAD = struct.Struct("<4xIHH")
SHX_HEAD_BYTES = 100
PIECE_BYTES = 1024 * 1024
# Of a record: its number, its length, and the kind of its geometry.
LEAST_RECORD_BYTES = 12


def require_whole_shapefile(shape: Path, name: str) -> None:
    """Raises VectorRefused if the .dbf or the .shp ends before its last record."""
    table = shape.with_suffix(".dbf")
    with table.open("rb") as file:
        head = file.read(DBF_HEAD.size)
    if len(head) == DBF_HEAD.size:
        rows, head_bytes, row_bytes = DBF_HEAD.unpack(head)
        if head_bytes + rows * row_bytes > table.stat().st_size:
            raise damaged(name, f"its .dbf is to have {rows:,} rows, and ends before the last one")
    count, last = _indexed_records(shape.with_suffix(".shx"))
    if count and last + LEAST_RECORD_BYTES > shape.stat().st_size:
        raise damaged(name, f"its .shp is to have {count:,} geometries, and ends before the last one")


def _indexed_records(index: Path) -> tuple[int, int]:
    """How many geometries a .shx lists, and where the last one begins."""
    count = last = 0
    with index.open("rb") as file:
        file.seek(SHX_HEAD_BYTES)
        while piece := file.read(PIECE_BYTES):
            # Places and lengths, in words of two bytes.
            places = np.frombuffer(piece, dtype=">u4", count=len(piece) // 8 * 2)[::2]
            count += len(places)
            last = max(last, int(places.max(initial=0)) * 2)
    return count, last


def require_all_rows(path: Path, name: str, driver: str, layer: str, rows: int, count: int) -> None:
    """Raises VectorRefused if fewer features were read than the file has. `count` is what GDAL says without reading
    them, and negative if it does not know.
    """
    if driver == "GPKG" and (count < 0 or rows < count):
        # It is a number in another table, which not every program keeps up to date.
        count = geopackage_rows(path, name, layer)
    elif driver not in ("FlatGeobuf", "OpenFileGDB"):
        return
    if rows < count:
        raise damaged(name, f"layer {layer[:100]!r} has {count:,} features, and only {rows:,} can be read")


def geopackage_rows(path: Path, name: str, layer: str) -> int:
    table = layer.replace('"', '""')
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as conn:
            conn.execute("PRAGMA trusted_schema = OFF")
            row = conn.execute(f'SELECT count(*) FROM "{table}"').fetchone()
    except sqlite3.Error as error:
        raise damaged(name, str(error)) from None
    return int(row[0])


def damaged(name: str, reason: str) -> VectorRefused:
    return VectorRefused(
        f"{name} is damaged or incomplete ({reason}): compare its size, and upload it again.", code="CORRUPTED_FILE"
    )
