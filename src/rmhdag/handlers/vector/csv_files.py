"""CSV with coordinates in two columns, or with WKT in one. Types are found in a first pass, in batches."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import shapely

from rmhdag.handlers.vector.layers import NO_ROWS, Batch, Layer
from rmhdag.handlers.vector.refusals import Finding, Findings, VectorRefused
from rmhdag.handlers.vector_limits import MEGABYTE, VectorLimits
from rmhdag.observability.secrets import mask_and_cut

SAMPLE_BYTES = 8192
CHECKED_ROWS = 100
QUOTED_VALUES = 5
NULLS = ["NA", "N/A", "NULL", "null", "None", "none", "-", "", "#N/A", "#NA"]
DELIMITERS = ",;\t|"
# Arrow reads up to 32 blocks ahead.
BLOCKS_OF_BATCH, LARGER = 8, 4
MOST_BLOCK_BYTES = 64 * MEGABYTE
NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")
CRS = "EPSG:4326"
# From the narrowest; text takes everything.
CANDIDATES: list[tuple[str, pa.DataType]] = [
    ("bool", pa.bool_()),
    ("int64", pa.int64()),
    ("float64", pa.float64()),
    ("date", pa.date32()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
]
ISO_DATE = r"^\d{4}-\d{2}-\d{2}$"
ISO_TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?$"
PLAIN_INTEGER = r"^[-+]?(0|[1-9]\d{0,18})$"
# With a leading zero it is a code, such as a postcode.
PLAIN_NUMBER = r"^[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?$"


class GeometryColumns(NamedTuple):
    """As the user names them."""

    latitude: str | None = None
    longitude: str | None = None
    wkt: str | None = None


class _Text(NamedTuple):
    encoding: str
    delimiter: str
    header: list[str]
    block_bytes: int


class _RowTooLong(Exception):
    """A row does not fit into a block."""


def open_csv(path: Path, name: str, wish: GeometryColumns, limits: VectorLimits) -> Layer:
    if wish.wkt is None and (wish.latitude is None or wish.longitude is None):
        raise VectorRefused(
            f"{name} is CSV: name its coordinates in lat_name and lon_name, or its geometries in wkt_column.",
            code="MISSING_PARAMETER",
        )
    text = _look(path, name, limits)
    if len(text.header) > limits.vector_max_columns:
        raise VectorRefused(
            f"{name} has {len(text.header):,} columns, and at most {limits.vector_max_columns:,} are accepted "
            "(RMHDAG_VECTOR_MAX_COLUMNS).",
            code="VECTOR_ATTRIBUTE_ERROR",
        )
    findings = Findings()
    suspicious = [word for word in text.header if NUMBER.fullmatch(word.strip())]
    findings.add(
        Finding.HEADER_SUSPICIOUS,
        "names of columns look like data: is the header missing?",
        len(suspicious),
        suspicious,
    )
    places = [_find_column(text.header, column, name) for column in wish if column is not None]
    _check_first_rows(path, name, text, wish, places)
    others = [index for index in range(len(text.header)) if index not in places or wish.wkt is None]
    text, (types, count, empty_rows) = _find_all_types(path, name, text, others)
    if count == 0:
        raise VectorRefused(
            f"{name} has a header and no rows with values: check the export.", code="VECTOR_NO_FEATURES"
        )
    findings.add(Finding.EMPTY_ROWS, "rows without any value are left out", empty_rows)
    schema = pa.schema([pa.field(text.header[index], types[index]) for index in others])

    def batches() -> Iterator[Batch]:
        row = 1
        for table in _strings(path, name, text):
            numbers = np.arange(row + 1, row + 1 + table.num_rows)
            row += table.num_rows
            mask = _has_values(table)
            if not all(mask.to_pylist()):
                table, numbers = table.filter(mask), numbers[np.asarray(mask)]
            if table.num_rows == 0:
                continue
            if wish.wkt is not None:
                geometries, unreadable = _from_wkt(table.column(places[0]), numbers, findings)
            else:
                geometries = _from_points(table.column(places[0]), table.column(places[1]), numbers, name)
                unreadable = NO_ROWS
            columns = [_converted(table.column(index), types[index]) for index in others]
            yield Batch(pa.RecordBatch.from_arrays(columns, schema=schema), geometries, unreadable)

    return Layer(Path(name).stem, schema, CRS, batches, count, findings=findings)


def _look(path: Path, name: str, limits: VectorLimits) -> _Text:
    """Encoding and delimiter, by the beginning of the file."""
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES)
    encoding = "utf-8"
    try:
        (sample if len(sample) < SAMPLE_BYTES else sample[: sample.rfind(b"\n") + 1]).decode()
    except UnicodeDecodeError:
        encoding = "latin-1"
    text = sample.decode(encoding, errors="replace").removeprefix("\ufeff")
    try:
        delimiter = csv.Sniffer().sniff(text, DELIMITERS).delimiter
    except csv.Error:
        delimiter = ","
    header = next(csv.reader([text.splitlines()[0]], delimiter=delimiter), []) if text.splitlines() else []
    if not header:
        raise VectorRefused(
            f"{name} has no header: write the names of the columns in its first line.", code="VECTOR_UNREADABLE"
        )
    return _Text(encoding, delimiter, header, limits.vector_batch_mb * MEGABYTE // BLOCKS_OF_BATCH)


def _find_column(header: Sequence[str], column: str, name: str) -> int:
    """Exactly, or else without regard to case and spaces at the ends."""
    if column in header:
        return header.index(column)
    plain = [word.strip().lower() for word in header]
    if plain.count(column.strip().lower()) == 1:
        return plain.index(column.strip().lower())
    columns = ", ".join(repr(word[:40]) for word in header[:20])
    raise VectorRefused(f"{name} has no column {column[:60]!r}; it has {columns}.", code="INVALID_PARAMETER")


def _check_first_rows(path: Path, name: str, text: _Text, wish: GeometryColumns, places: Sequence[int]) -> None:
    """Before the whole file is read."""
    columns: list[list[str]] = [[] for _ in places]
    most = CHECKED_ROWS if wish.wkt is None else QUOTED_VALUES
    # For this process, which reads nothing else: a country as WKT has millions of characters.
    csv.field_size_limit(MOST_BLOCK_BYTES)
    with path.open(encoding=text.encoding, errors="replace", newline="") as file:
        try:
            for row in islice(csv.reader(file, delimiter=text.delimiter), 1, CHECKED_ROWS + 1):
                for place, values in zip(places, columns, strict=True):
                    value = row[place].strip() if place < len(row) else ""
                    if len(values) < most and value not in NULLS:
                        values.append(value)
        except csv.Error as error:
            raise VectorRefused(f"{name} cannot be read as CSV: {error}.", code="VECTOR_UNREADABLE") from None
    for values, column in zip(columns, [column for column in wish if column is not None], strict=True):
        if wish.wkt is not None:
            _check_wkt(values, column, name)
        elif any(not _is_number(value) for value in values):
            quoted = ", ".join(repr(value[:40]) for value in values[:QUOTED_VALUES])
            raise VectorRefused(
                f"column {column!r} of {name} has values that are not numbers: {quoted}. Name the column with the "
                "coordinates, with a point as decimal mark.",
                code="VECTOR_COORDINATE_ERROR",
            )


def _check_wkt(values: Sequence[str], column: str, name: str) -> None:
    geometries = shapely.from_wkt(np.array(values[:QUOTED_VALUES], dtype=object), on_invalid="ignore")
    if len(geometries) and not any(geometries):
        raise VectorRefused(
            f"column {column!r} of {name} has no WKT: {values[0][:60]!r}. Write geometries as POINT (x y).",
            code="VECTOR_GEOMETRY_INVALID",
        )


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _strings(path: Path, name: str, text: _Text) -> Iterator[pa.RecordBatch]:
    """Batches in which every value is text, or null."""
    columns = [f"c{index}" for index in range(len(text.header))]
    try:
        with pacsv.open_csv(
            path,
            pacsv.ReadOptions(
                use_threads=False,
                block_size=text.block_bytes,
                column_names=columns,
                skip_rows=1,
                encoding=text.encoding,
            ),
            pacsv.ParseOptions(delimiter=text.delimiter, newlines_in_values=True),
            pacsv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=NULLS,
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        ) as reader:
            yield from reader
    except pa.ArrowInvalid as error:
        reason = str(error)
        if "Empty CSV" in reason:
            return
        if "straddl" in reason:
            raise _RowTooLong from None
        is_text = "UTF8" in reason
        raise VectorRefused(
            f"{name} has text that is not UTF-8: export it as UTF-8."
            if is_text
            else f"{name} cannot be read as CSV: {mask_and_cut(reason, 200)}",
            code="VECTOR_ENCODING_ERROR" if is_text else "VECTOR_UNREADABLE",
        ) from None


def _find_all_types(
    path: Path, name: str, text: _Text, columns: Sequence[int]
) -> tuple[_Text, tuple[dict[int, pa.DataType], int, int]]:
    """In blocks that are as small as the longest row allows."""
    while True:
        try:
            return text, _find_types(path, name, text, columns)
        except _RowTooLong:
            text = text._replace(block_bytes=text.block_bytes * LARGER)
        if text.block_bytes > MOST_BLOCK_BYTES:
            raise VectorRefused(
                f"{name} has a row of more than {MOST_BLOCK_BYTES // LARGER // MEGABYTE} MB: is a quote missing? Give "
                "geometries as large as that as GeoPackage.",
                code="FILE_TOO_LARGE",
            )


def _find_types(path: Path, name: str, text: _Text, columns: Sequence[int]) -> tuple[dict[int, pa.DataType], int, int]:
    """The narrowest type that takes every value of a column; how many rows have values, and how many have none."""
    candidates = {index: list(CANDIDATES) for index in columns}
    has_value = dict.fromkeys(columns, False)
    count = empty = 0
    for batch in _strings(path, name, text):
        mask = _has_values(batch)
        rows = pc.sum(mask).as_py() or 0
        count, empty = count + rows, empty + batch.num_rows - rows
        for index in columns:
            values = batch.column(index)
            if values.null_count == len(values):
                continue
            has_value[index] = True
            trimmed = pc.utf8_trim_whitespace(values)
            candidates[index] = [candidate for candidate in candidates[index] if _fits(trimmed, candidate[0])]
    types = {
        index: candidates[index][0][1] if has_value[index] and candidates[index] else pa.string() for index in columns
    }
    return types, count, empty


def _fits(values: pa.Array, kind: str) -> bool:
    patterns = {"int64": PLAIN_INTEGER, "float64": PLAIN_NUMBER, "date": ISO_DATE, "timestamp": ISO_TIME}
    if kind == "bool":
        matches = pc.is_in(pc.utf8_lower(values), pa.array(["true", "false"]))
        return bool(pc.all(pc.or_(matches, pc.is_null(values))).as_py())
    if not pc.all(pc.match_substring_regex(values, patterns[kind])).as_py():
        return False
    try:
        _converted(values, dict(CANDIDATES)[kind])
    except (pa.ArrowInvalid, ValueError):
        return False
    return True


def _converted(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_string(type_):
        return values
    trimmed = pc.utf8_trim_whitespace(values)
    if pa.types.is_timestamp(type_):
        # Without an offset it is UTC.
        naive = pc.replace_substring_regex(trimmed, r"(Z|[+-]\d{2}:?\d{2})$", "")
        if pc.any(pc.not_equal(naive, trimmed)).as_py():
            offset = pc.and_(pc.is_valid(trimmed), pc.equal(naive, trimmed))
            trimmed = pc.if_else(offset, pc.binary_join_element_wise(trimmed, "Z", ""), trimmed)
            return trimmed.cast(pa.timestamp("us", tz="UTC"))
        return trimmed.cast(pa.timestamp("us")).cast(type_)
    if pa.types.is_integer(type_):
        trimmed = pc.replace_substring_regex(trimmed, r"^\+", "")
    return trimmed.cast(type_)


def _has_values(batch: pa.RecordBatch) -> pa.Array:
    mask = pc.is_valid(batch.column(0))
    for index in range(1, batch.num_columns):
        mask = pc.or_(mask, pc.is_valid(batch.column(index)))
    return mask


def _from_points(latitudes: pa.Array, longitudes: pa.Array, numbers: np.ndarray, name: str) -> pa.Array:
    y, x = (_numbers(values, numbers, name) for values in (latitudes, longitudes))
    outside = (np.abs(x) > 180) | (np.abs(y) > 90)
    if outside.any():
        place = int(np.argmax(outside))
        raise VectorRefused(
            f"line {numbers[place]} of {name}: longitude {x[place]:g} and latitude {y[place]:g} are not on earth. Are "
            "the columns swapped, or are the coordinates in metres?",
            code="VECTOR_COORDINATE_ERROR",
        )
    missing = np.isnan(x) | np.isnan(y)
    points = shapely.to_wkb(shapely.points(x, y))
    return pa.array(points, type=pa.binary(), mask=missing)


def _numbers(values: pa.Array, numbers: np.ndarray, name: str) -> np.ndarray:
    try:
        plain = pc.utf8_trim_whitespace(values).cast(pa.float64())
    except pa.ArrowInvalid:
        place = next(
            index for index, value in enumerate(values.to_pylist()) if value is not None and not _is_number(value)
        )
        raise VectorRefused(
            f"line {numbers[place]} of {name}: the coordinate {values[place].as_py()[:40]!r} is not a number.",
            code="VECTOR_COORDINATE_ERROR",
        ) from None
    return np.asarray(plain.to_numpy(zero_copy_only=False), dtype=float)


def _from_wkt(values: pa.Array, numbers: np.ndarray, findings: Findings) -> tuple[pa.Array, np.ndarray]:
    """The geometries, and the rows whose text is none."""
    texts = np.array(values.to_pylist(), dtype=object)
    geometries = shapely.from_wkt(texts, on_invalid="ignore")
    broken = np.array([text is not None and geometry is None for text, geometry in zip(texts, geometries, strict=True)])
    if broken.any():
        lines = (f"line {number}" for number in numbers[broken])
        findings.add(
            Finding.GEOMETRY_UNREADABLE, "rows whose geometry is no WKT are left out", int(broken.sum()), lines
        )
    return pa.array(shapely.to_wkb(geometries), type=pa.binary()), np.flatnonzero(broken)
