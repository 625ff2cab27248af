"""vector.simplify and vector.dissolve: new prepared data from data that was prepared before.

Both read the GeoParquet files of a manifest and write new ones, so that their output is loaded like that of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from pydantic import BaseModel, ConfigDict, Field

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.registry import handler
from rmhdag.handlers.vector.attributes import stored_type
from rmhdag.handlers.vector.geometries import GEOMETRY_TYPES, GROUP_OF_TYPE, GeometryCleaner, Reduction, Vertices
from rmhdag.handlers.vector.geoparquet import GEOMETRY
from rmhdag.handlers.vector.manifest import PreparedColumn, PreparedPart, PreparedTable, read_manifest
from rmhdag.handlers.vector.parts import PartFiles
from rmhdag.handlers.vector.prepare import CHUNK_ROWS, VECTORS, Chunk, chunks_of, stored_name_of
from rmhdag.handlers.vector.refusals import Findings, VectorRefused
from rmhdag.handlers.vector.systems import TARGET, ToDegrees
from rmhdag.handlers.vector.upload import BATCH_ROWS
from rmhdag.models.blobs import BlobAddress, BlobRef, Container
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.records import LineageRecord, TableClaimRecord, TableName, Zone
from rmhdag.models.table_names import digest, name_with

MOST_GROUPS = 1_000_000
NUMERIC = ("integer", "bigint", "double precision")
GROUP_OF_GEOMETRY = {name: group for group, name in GEOMETRY_TYPES.items()}
Aggregate = Literal["count", "sum", "min", "max", "first"]


class DerivedParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    manifest: BlobRef = Field(description="Output of vector.prepare, or of another of these handlers")
    table_name: TableName = Field(description="Name of the new table; several tables get it as their beginning")
    container: Container = VECTORS
    overwrite: bool = False


class DerivedOutput(BaseModel):
    manifest: BlobRef
    chunks: list[Chunk]
    num_chunks: int
    total_features: int
    original_row_count: int
    vertices_before: int
    vertices_after: int
    reduction_percent: float


class SimplifyParams(DerivedParams):
    tolerance: Annotated[
        float, Field(gt=0, le=10, allow_inf_nan=False, description="In degrees; 0.001 is about 111 m")
    ] = 0.001
    preserve_topology: bool = True
    snap_to_grid: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = Field(
        None, description="Width of a grid in degrees"
    )


@handler("vector.simplify", aliases=["vector_simplify"], output=DerivedOutput)
def simplify(ctx: HandlerContext[SimplifyParams]) -> HandlerResult:
    """Leaves out vertices that matter little (Douglas-Peucker); the result is loaded like a prepared file."""
    params = ctx.params
    derivation = Derivation(ctx)
    reduction = Reduction(params.tolerance, params.preserve_topology, params.snap_to_grid)
    for number, table in enumerate(derivation.manifest.tables):
        findings = derivation.findings
        degrees = ToDegrees(TARGET, None, table.table_name, is_required=False, findings=findings)
        cleaner = GeometryCleaner(table.table_name, degrees, reduction, findings)
        files = derivation.files(table, table.columns)
        for batch in derivation.batches(number):
            clean = cleaner.clean(batch.column(0))
            keep = clean.types == _type_id(table)
            columns = [batch.column(index).take(pa.array(clean.rows[keep])) for index in range(1, batch.num_columns)]
            if keep.any():
                files.write(clean.wkb.filter(pa.array(keep)), columns, clean.bounds[keep])
        derivation.add(table, table.columns, files, cleaner.vertices)
    return derivation.result()


class DissolveParams(DerivedParams):
    by: Annotated[list[str], Field(max_length=10)] = Field(
        default_factory=list, description="Columns whose equal values make one feature; without any, all become one"
    )
    aggregates: dict[str, Aggregate] = Field(
        default_factory=dict, description="Columns to keep, and what to keep of their values"
    )


@handler("vector.dissolve", aliases=["vector_dissolve"], output=DerivedOutput)
def dissolve(ctx: HandlerContext[DissolveParams]) -> HandlerResult:
    """Merges features with equal values of some columns into one each; the result is loaded like a prepared file."""
    params = ctx.params
    derivation = Derivation(ctx)
    for number, table in enumerate(derivation.manifest.tables):
        keys = [table.column(name) for name in params.by]
        wishes = [(table.column(name), aggregate) for name, aggregate in params.aggregates.items()]
        for column, aggregate in wishes:
            if aggregate == "sum" and column.type not in NUMERIC:
                raise VectorRefused(
                    f"column {column.source_name!r} is {column.type} and has no sum.", code="INVALID_PARAMETER"
                )
        columns = [*keys, *(_aggregated(column, aggregate) for column, aggregate in wishes), _COUNT]
        groups = _collect(derivation, number, keys, wishes)
        files, vertices = derivation.files(table, columns), Vertices()
        merged = [(key, shapely.union_all(group.geometries), group) for key, group in groups.items()]
        vertices.before = sum(group.vertices for group in groups.values())
        for start in range(0, len(merged), BATCH_ROWS):
            _write(files, columns, merged[start : start + BATCH_ROWS], table, vertices)
        derivation.add(table, columns, files, vertices)
    return derivation.result()


_COUNT = PreparedColumn(name="feature_count", source_name="feature_count", type="bigint")


class _Merge:
    """What is known of one group so far. Its geometries are merged from time to time, so that they stay few."""

    MOST_WAITING = 512

    def __init__(self) -> None:
        self.geometries: list[Any] = []
        self.values: dict[str, Any] = {}
        self.count = 0
        self.vertices = 0

    def add(self, geometry: Any, values: dict[str, tuple[Aggregate, Any]]) -> None:
        self.count += 1
        self.vertices += int(shapely.get_num_coordinates(geometry))
        self.geometries.append(geometry)
        if len(self.geometries) >= self.MOST_WAITING:
            self.geometries = [shapely.union_all(self.geometries)]
        for name, (aggregate, value) in values.items():
            self.values[name] = _combined(aggregate, self.values.get(name), value)


def _collect(
    derivation: Derivation, number: int, keys: list[PreparedColumn], wishes: list[tuple[PreparedColumn, Aggregate]]
) -> dict[tuple[Any, ...], _Merge]:
    groups: dict[tuple[Any, ...], _Merge] = {}
    for batch in derivation.batches(number):
        geometries = shapely.from_wkb(batch.column(0).to_numpy(zero_copy_only=False))
        rows = batch.select([*(column.name for column in keys), *(column.name for column, _ in wishes)]).to_pylist()
        for geometry, row in zip(geometries, rows, strict=True):
            key = tuple(row[column.name] for column in keys)
            if key not in groups and len(groups) >= MOST_GROUPS:
                raise VectorRefused(
                    f"there are more than {MOST_GROUPS:,} groups: dissolve by fewer columns.", code="INVALID_PARAMETER"
                )
            values = {column.name: (aggregate, row[column.name]) for column, aggregate in wishes}
            groups.setdefault(key, _Merge()).add(geometry, values)
    return groups


def _write(
    files: PartFiles, columns: list[PreparedColumn], merged: list[Any], table: PreparedTable, vertices: Vertices
) -> None:
    geometries = shapely.make_valid(np.array([geometry for _, geometry, _ in merged], dtype=object))
    dimension = {"MultiPoint": 0, "MultiLineString": 1, "MultiPolygon": 2}[table.geometry_type]
    make = (shapely.MultiPoint, shapely.MultiLineString, shapely.MultiPolygon)[dimension]
    parts = [
        [
            part
            for piece in shapely.get_parts(geometry)
            for part in shapely.get_parts(piece)
            if shapely.get_dimensions(part) == dimension
        ]
        for geometry in geometries
    ]
    whole = shapely.orient_polygons(np.array([make(pieces) for pieces in parts], dtype=object), exterior_cw=False)
    vertices.after += int(shapely.get_num_coordinates(whole).sum())
    arrays = []
    for index, column in enumerate(columns):
        is_key = index < len(merged[0][0])
        values = [
            key[index] if is_key else group.count if column is _COUNT else group.values.get(column.source_name)
            for key, _, group in merged
        ]
        arrays.append(pa.array(values, type=stored_type(column.type)))
    wkb = shapely.to_wkb(whole, output_dimension=2, byte_order=1)
    files.write(pa.array(wkb, type=pa.binary()), arrays, shapely.bounds(whole))


def _aggregated(column: PreparedColumn, aggregate: Aggregate) -> PreparedColumn:
    type_ = (
        "bigint"
        if aggregate == "count"
        else "double precision"
        if aggregate == "sum" and column.type == "double precision"
        else "bigint"
        if aggregate == "sum"
        else column.type
    )
    return PreparedColumn(name=name_with(column.name, f"_{aggregate}"), source_name=column.name, type=type_)


def _combined(aggregate: Aggregate, before: Any, value: Any) -> Any:
    if aggregate == "count":
        return (before or 0) + (value is not None)
    if value is None or before is None or aggregate == "first":
        return value if before is None else before
    return before + value if aggregate == "sum" else min(before, value) if aggregate == "min" else max(before, value)


class Derivation:
    """New prepared data from a manifest."""

    def __init__(self, ctx: HandlerContext[Any]) -> None:
        self._ctx = ctx
        self.manifest = read_manifest(ctx, ctx.params.manifest)
        self.findings = Findings()
        self._tables: list[PreparedTable] = []
        self._parts: list[PreparedPart] = []
        self._vertices = Vertices()

    def files(self, table: PreparedTable, columns: list[PreparedColumn]) -> PartFiles:
        group = GROUP_OF_GEOMETRY[table.geometry_type]
        schema = pa.schema([pa.field(column.name, stored_type(column.type)) for column in columns])
        params = self._ctx.params
        return PartFiles(
            self._ctx.storage, self._ctx.scratch, params.container, params.table_name, group, schema, CHUNK_ROWS
        )

    def batches(self, table_number: int) -> Iterator[pa.RecordBatch]:
        columns = [GEOMETRY, *(column.name for column in self.manifest.tables[table_number].columns)]
        parts = [part for part in self.manifest.parts if part.table == table_number]
        for number, part in enumerate(parts):
            local = self._ctx.scratch / f"derived-{part.file.sha256[:16]}.parquet"
            self._ctx.storage.download(part.file.address, local)
            with pq.ParquetFile(local, pre_buffer=False) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
                    yield batch.select(columns)
            local.unlink()
            self._ctx.progress(number + 1, len(parts), "reading")

    def add(self, table: PreparedTable, columns: list[PreparedColumn], files: PartFiles, vertices: Vertices) -> None:
        files.close()
        if not files.row_count:
            return
        base = self._ctx.params.table_name
        name = name_with(base, f"_{GROUP_OF_GEOMETRY[table.geometry_type]}") if len(self.manifest.tables) > 1 else base
        number, first_id = len(self._tables), 1
        self._tables.append(
            table.model_copy(
                update={
                    "table_name": name,
                    "stored_name": stored_name_of(name, self._ctx),
                    "table_group": base,
                    "row_count": files.row_count,
                    "bbox": files.bbox,
                    "columns": columns,
                    "spans": files.spans,
                }
            )
        )
        for part, row_count in files.files:
            self._parts.append(PreparedPart(table=number, file=part, row_count=row_count, first_id=first_id))
            first_id += row_count
        self._vertices.before += vertices.before
        self._vertices.after += vertices.after

    def result(self) -> HandlerResult:
        params = self._ctx.params
        if not self._tables:
            raise VectorRefused(
                "nothing is left of the features: choose a smaller tolerance.", code="VECTOR_NO_FEATURES"
            )
        manifest = self.manifest.model_copy(update={"tables": self._tables, "parts": self._parts})
        text = manifest.model_dump_json()
        address = BlobAddress(Zone.SILVER, params.container, f"{params.table_name}/manifest-{digest(text)[:16]}.json")
        file = self._ctx.storage.write(address, text.encode())
        before, after = self._vertices.before, self._vertices.after
        output = DerivedOutput(
            manifest=file,
            chunks=chunks_of(len(self._parts)),
            num_chunks=len(self._parts),
            total_features=manifest.row_count,
            original_row_count=self.manifest.row_count,
            vertices_before=before,
            vertices_after=after,
            reduction_percent=round(100 * (1 - after / before), 2) if before else 0.0,
        )
        names = tuple(table.table_name for table in self._tables)
        return HandlerResult(
            output=output.model_dump(mode="json"),
            warnings=self.findings.warnings(),
            records=(
                TableClaimRecord(table_names=names, overwrite=params.overwrite),
                *(part.file.record("data") for part in self._parts),
                file.record("manifest"),
                LineageRecord(source_url=self._ctx.storage.url(params.manifest.address), role="prepared"),
            ),
        )


def _type_id(table: PreparedTable) -> int:
    return next(number for number, group in GROUP_OF_TYPE.items() if GEOMETRY_TYPES[group] == table.geometry_type)
