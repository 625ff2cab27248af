"""What is wrong with GeoJSON, with line and column: GDAL only says that it cannot read it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rmhdag.handlers.vector.refusals import VectorRefused

TYPES = frozenset(
    "FeatureCollection Feature Point MultiPoint LineString MultiLineString Polygon MultiPolygon "
    "GeometryCollection".split()
)
# Larger files are read by GDAL alone.
MOST_BYTES = 64 * 1024 * 1024
EMPTY = re.compile(rb'"features"\s*:\s*\[\s*\]')
HEAD_BYTES = 1024 * 1024


def check_geojson(path: Path, name: str) -> None:
    """Raises VectorRefused for text that is no JSON, for JSON that is no GeoJSON, and for an empty collection."""
    size_bytes = path.stat().st_size
    if size_bytes > MOST_BYTES:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        if EMPTY.search(head):
            raise _empty(name)
        return
    try:
        document = json.loads(path.read_bytes())
    except UnicodeDecodeError as error:
        raise VectorRefused(
            f"{name} is not UTF-8 (byte {error.start:,}): export it as UTF-8.", code="VECTOR_ENCODING_ERROR"
        ) from None
    except json.JSONDecodeError as error:
        raise VectorRefused(
            f"{name} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}.",
            code="VECTOR_UNREADABLE",
        ) from None
    except RecursionError:
        raise VectorRefused(f"{name} is nested too deeply to be GeoJSON.", code="VECTOR_UNREADABLE") from None
    kind = document.get("type") if isinstance(document, dict) else None
    if kind not in TYPES:
        raise VectorRefused(
            f"{name} is not GeoJSON: its type is {str(kind)[:60]!r}, and GeoJSON has {', '.join(sorted(TYPES))}.",
            code="VECTOR_FORMAT_MISMATCH",
        )
    if kind == "FeatureCollection" and not document.get("features"):
        raise _empty(name)


def _empty(name: str) -> VectorRefused:
    return VectorRefused(
        f"{name} is a FeatureCollection without features: check the export.", code="VECTOR_NO_FEATURES"
    )
