"""GeoParquet, read and written by Arrow: geometries are WKB from file to file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rmhdag.handlers.vector.layers import Batch, Layer, batch_rows
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.handlers.vector_limits import MEGABYTE, VectorLimits
from rmhdag.observability.secrets import mask_and_cut

GEO = b"geo"
GEOMETRY = "geom"
MEDIA_TYPE = "application/vnd.apache.parquet"


def open_geoparquet(path: Path, name: str, limits: VectorLimits) -> Layer:
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise VectorRefused(
            f"{name} is a damaged Parquet file ({mask_and_cut(str(error), 200)}).", code="CORRUPTED_FILE"
        ) from None
    with file:
        metadata, schema = file.metadata, file.schema_arrow
        facts = _geo_facts(schema, name)
        count = metadata.num_rows
        largest = max(
            (metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups)), default=0
        )
    if largest > 4096 * MEGABYTE:
        raise VectorRefused(
            f"{name} has a row group of {largest / MEGABYTE:,.0f} MB: write smaller row groups.", code="FILE_TOO_LARGE"
        )
    column = str(facts["primary_column"])
    geometry = facts.get("columns", {}).get(column, {})
    if geometry.get("encoding", "WKB") != "WKB":
        raise VectorRefused(
            f"{name} stores geometries as {geometry.get('encoding')!r}: write them as WKB.", code="INVALID_FORMAT"
        )
    place = schema.get_field_index(column)
    if place < 0 or not (
        pa.types.is_binary(schema.field(place).type) or pa.types.is_large_binary(schema.field(place).type)
    ):
        raise VectorRefused(
            f"{name} says that its geometries are in {column!r}, and they are not.", code="VECTOR_UNREADABLE"
        )
    if count == 0:
        raise VectorRefused(f"{name} has no rows: check the export.", code="VECTOR_NO_FEATURES")
    attributes = pa.schema([field.remove_metadata() for index, field in enumerate(schema) if index != place])
    rows = batch_rows(path.stat().st_size * 3, count, limits)

    def batches() -> Iterator[Batch]:
        try:
            # Without a buffer, a column of a group of rows is read at once.
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=MEGABYTE) as source:
                for batch in source.iter_batches(batch_size=rows, use_threads=False):
                    columns = [array for index, array in enumerate(batch.columns) if index != place]
                    yield Batch(pa.RecordBatch.from_arrays(columns, schema=attributes), batch.column(place))
        except (pa.ArrowException, OSError) as error:
            raise VectorRefused(
                f"{name} is a damaged Parquet file ({mask_and_cut(str(error), 200)}).", code="CORRUPTED_FILE"
            ) from None

    return Layer(Path(name).stem, attributes, _crs_of(geometry), batches, count)


def _geo_facts(schema: pa.Schema, name: str) -> dict[str, Any]:
    try:
        facts = json.loads((schema.metadata or {})[GEO])
        column = facts["primary_column"]
    except (KeyError, ValueError, TypeError):
        raise VectorRefused(
            f"{name} is Parquet without geometries (it has no `geo` metadata): write GeoParquet, for example with "
            "geopandas or ogr2ogr.",
            code="VECTOR_GEOMETRY_EMPTY",
        ) from None
    assert isinstance(column, str)
    return dict(facts)


def _crs_of(geometry: dict[str, Any]) -> str | None:
    """Longitude and latitude if nothing is said; none if the file says that it is unknown."""
    if "crs" not in geometry:
        return "OGC:CRS84"
    crs = geometry["crs"]
    if crs is None:
        return None
    identity = crs.get("id", {}) if isinstance(crs, dict) else {}
    if identity.get("authority") and identity.get("code"):
        return f"{identity['authority']}:{identity['code']}"
    return json.dumps(crs)


def geo_metadata(geometry_type: str, bounds: tuple[float, float, float, float] | None) -> bytes:
    """Of a file of ours: longitude and latitude, which is what GeoParquet means without a system."""
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": [geometry_type]}
    if bounds is not None:
        column["bbox"] = list(bounds)
    return json.dumps({"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}).encode()
