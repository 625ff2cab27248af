"""What is wrong with GeoJSON, with line and column: GDAL only says that it cannot read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
FEATURE_ID = "id"


class FeatureIds:
    """The `id`s that features of GeoJSON have beside their properties.

    GDAL makes a column of texts unless a property has this name, and takes whole numbers for its own. Those become a
    column if all features have one and none comes twice, which it would replace: in a stream, if they rise.
    """

    def __init__(self) -> None:
        self.count = 0
        self._numbers = 0
        self._is_property = False
        self._all_rise = True
        self._last = -1

    def add(self, value: Any, properties: Any = None) -> None:
        self.count += value is not None
        self._numbers += type(value) is int
        self._is_property |= isinstance(properties, dict) and FEATURE_ID in properties
        self._all_rise &= type(value) is int and self._last < value < 2**63
        if self._all_rise:
            self._last = value

    @property
    def are_numbers(self) -> bool:
        return self._all_rise and self._numbers > 0

    def is_lost(self, columns: Sequence[str]) -> bool:
        """`columns` are those that GDAL finds."""
        has_texts = self._numbers < self.count and not self._is_property
        return not self.are_numbers and not (has_texts and FEATURE_ID in columns)


NO_IDS = FeatureIds()


def check_geojson(path: Path, name: str) -> FeatureIds:
    """Raises VectorRefused for text that is no JSON, for JSON that is no GeoJSON, and for an empty collection."""
    document = load_json(path.read_bytes(), name)
    check_kind(document, name)
    if document["type"] == "FeatureCollection":
        return _check_features(document.get("features"), name)
    return NO_IDS


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


def check_geojson_sequence(path: Path, name: str) -> tuple[int, FeatureIds]:
    """How many features there are. Raises VectorRefused for a record that is not a feature: GDAL would leave it out
    without a word.
    """
    count, ids = 0, FeatureIds()
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
            ids.add(record.get(FEATURE_ID), record.get("properties"))
    return count, ids


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


def _check_features(features: Any, name: str) -> FeatureIds:
    if not features:
        raise no_features(name)
    for number, feature in enumerate(features if isinstance(features, list) else [features], 1):
        kind = feature.get("type") if isinstance(feature, dict) else None
        if str(kind).lower() != "feature":
            raise not_a_feature(name, number, kind)
    ids = FeatureIds()
    # Here GDAL knows all of them before it reads the first: they need not rise in the file.
    for feature in sorted(features, key=_order) if isinstance(features, list) else ():
        ids.add(feature.get(FEATURE_ID), feature.get("properties"))
    return ids


def _order(feature: dict[str, Any]) -> int:
    value = feature.get(FEATURE_ID)
    return value if type(value) is int else -1


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
