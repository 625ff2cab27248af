"""What is wrong with GeoJSON, with line and column: GDAL only says that it cannot read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.handlers.vector_limits import MEGABYTE

TYPES = frozenset(
    "FeatureCollection Feature Point MultiPoint LineString MultiLineString Polygon MultiPolygon "
    "GeometryCollection".split()
)
# As objects of Python a file takes five times as much memory. Larger ones become sequences.
MOST_BYTES = 16 * MEGABYTE
# Before each record of a sequence, whose text may then have several lines (RFC 8142).
SEPARATOR = b"\x1e"
PIECE_BYTES = 8 * MEGABYTE
# GDAL leaves larger ones out; see OGR_GEOJSON_MAX_OBJ_SIZE.
MOST_RECORD_MB = 200


class RisingIds:
    """Whether all features have whole numbers as `id` that rise: GDAL replaces those that come twice."""

    def __init__(self) -> None:
        self.all_rise = True
        self._last = -1

    def add(self, value: Any) -> None:
        self.all_rise &= type(value) is int and self._last < value < 2**63
        if self.all_rise:
            self._last = value


def check_geojson(path: Path, name: str) -> bool:
    """Whether its features have numbers of their own. Raises VectorRefused for text that is no JSON, for JSON that is
    no GeoJSON, and for an empty collection.
    """
    document = load_json(path.read_bytes(), name)
    check_kind(document, name)
    if document["type"] == "FeatureCollection":
        return _check_features(document.get("features"), name)
    return False


def load_json(text: bytes, name: str, lines_before: int = 0) -> Any:
    """Raises VectorRefused with line and column if it is no JSON."""
    try:
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise not_utf8(error, name) from None
    except json.JSONDecodeError as error:
        raise invalid_json(error, name, lines_before) from None
    except RecursionError:
        raise VectorRefused(f"{name} is nested too deeply to be GeoJSON.", code="VECTOR_UNREADABLE") from None


def not_utf8(error: UnicodeDecodeError, name: str) -> VectorRefused:
    return VectorRefused(
        f"{name} is not UTF-8 (byte {error.start:,}): export it as UTF-8.", code="VECTOR_ENCODING_ERROR"
    )


def invalid_json(error: json.JSONDecodeError, name: str, lines_before: int) -> VectorRefused:
    return VectorRefused(
        f"{name} is not valid JSON: {error.msg} in line {lines_before + error.lineno:,}, column {error.colno:,}.",
        code="VECTOR_UNREADABLE",
    )


def check_kind(document: Any, name: str) -> None:
    kind = document.get("type") if isinstance(document, dict) else None
    if kind not in TYPES:
        raise VectorRefused(
            f"{name} is not GeoJSON: its type is {str(kind)[:60]!r}, and GeoJSON has {', '.join(sorted(TYPES))}.",
            code="VECTOR_FORMAT_MISMATCH",
        )


def check_geojson_sequence(path: Path, name: str) -> tuple[int, bool]:
    """How many features there are, and whether they have numbers of their own. Raises VectorRefused for a record that
    is not a feature: GDAL would leave it out without a word.
    """
    count, ids = 0, RisingIds()
    with path.open("rb") as file:
        for place, text in _records(file):
            if len(text) > MOST_RECORD_MB * MEGABYTE:
                raise VectorRefused(
                    f"{place} of {name} has more than {MOST_RECORD_MB} MB: split its geometry.", code="FILE_TOO_LARGE"
                )
            if not text or text.isspace():
                continue
            try:
                record = parse_json(text)
            except UnicodeDecodeError:
                raise VectorRefused(
                    f"{place} of {name} is not UTF-8: export it as UTF-8.", code="VECTOR_ENCODING_ERROR"
                ) from None
            except (ValueError, RecursionError) as error:
                raise VectorRefused(
                    f"{place} of {name} is not valid JSON ({getattr(error, 'msg', error)}): is the file complete? Each "
                    "line has one feature.",
                    code="VECTOR_UNREADABLE",
                ) from None
            kind = record.get("type") if isinstance(record, dict) else None
            if kind not in TYPES or kind == "FeatureCollection":
                raise VectorRefused(
                    f"{place} of {name} is not a feature: its type is {str(kind)[:60]!r}.",
                    code="VECTOR_FORMAT_MISMATCH",
                )
            count += 1
            ids.add(record.get("id"))
    return count, ids.all_rise


def _records(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Where each is, and its text."""
    number = 0
    if file.read(1) != SEPARATOR:
        file.seek(0)
        while line := file.readline(MOST_RECORD_MB * MEGABYTE + 1):
            number += 1
            yield f"line {number:,}", line
        return
    rest = b""
    while piece := file.read(PIECE_BYTES):
        *texts, rest = (rest + piece).split(SEPARATOR)
        for text in [*texts, rest] if len(rest) > MOST_RECORD_MB * MEGABYTE else texts:
            number += 1
            yield f"record {number:,}", text
    yield f"record {number + 1:,}", rest


def parse_json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # As GDAL, it takes NaN for a number.
        return json.loads(text.decode())


def _check_features(features: Any, name: str) -> bool:
    if not features:
        raise no_features(name)
    for number, feature in enumerate(features if isinstance(features, list) else [features], 1):
        kind = feature.get("type") if isinstance(feature, dict) else None
        if str(kind).lower() != "feature":
            raise not_a_feature(name, number, kind)
    ids = [feature.get("id") for feature in features] if isinstance(features, list) else []
    return all(type(value) is int and 0 <= value < 2**63 for value in ids) and 0 < len(ids) == len(set(ids))


def not_a_feature(name: str, number: int, kind: Any) -> VectorRefused:
    return VectorRefused(
        f"{name} is not GeoJSON: number {number:,} of its features has the type {str(kind)[:60]!r}, and 'Feature' is "
        "expected.",
        code="VECTOR_FORMAT_MISMATCH",
    )


def no_features(name: str) -> VectorRefused:
    return VectorRefused(
        f"{name} is a FeatureCollection without features: check the export.", code="VECTOR_NO_FEATURES"
    )
