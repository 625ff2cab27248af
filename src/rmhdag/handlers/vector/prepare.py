"""vector.prepare: a file from outside becomes clean GeoParquet files, ready to be loaded as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Annotated, Any, Literal, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.raster.outputs import lineage_from
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import SourceParams
from rmhdag.handlers.vector.attributes import Attributes
from rmhdag.handlers.vector.csv_files import GeometryColumns
from rmhdag.handlers.vector.geometries import (
    GEOMETRY_TYPES,
    GROUP_OF_TYPE,
    Cleaned,
    GeometryCleaner,
    Group,
    Parsed,
    Reduction,
    Vertices,
)
from rmhdag.handlers.vector.layers import Batch, Layer
from rmhdag.handlers.vector.manifest import Bounds, Manifest, PreparedColumn, PreparedPart, PreparedTable
from rmhdag.handlers.vector.opening import OpenedFile, Wish, open_vector
from rmhdag.handlers.vector.parts import PartFiles
from rmhdag.handlers.vector.pipelines import WriteBehind, read_ahead
from rmhdag.handlers.vector.refusals import Finding, Findings, VectorRefused
from rmhdag.handlers.vector.systems import TARGET, ToDegrees
from rmhdag.handlers.vector_limits import MEGABYTE, VectorLimits
from rmhdag.models.blobs import BlobAddress, BlobRef, Container
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.records import TableClaimRecord, Zone
from rmhdag.models.table_names import MOST_TABLE_CHARACTERS, digest, joined, name_with, table_name_fault, table_slug
from rmhdag.postgis.loading import has_foreign_table

VECTORS = "vectors"
CHUNK_ROWS = 100_000
MOST_CHUNKS = 500
MOST_LAYERS = 10
MOST_FILES = 100
LAYER_CHARACTERS = 40
CURATED = "curated_"


class Simplify(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tolerance: Annotated[
        float, Field(gt=0, le=10, allow_inf_nan=False, description="In degrees; 0.001 is about 111 m")
    ] = 0.001
    preserve_topology: bool = True


class Quantize(BaseModel):
    model_config = ConfigDict(extra="forbid")

    snap_to_grid: Annotated[
        float, Field(gt=0, le=1, allow_inf_nan=False, description="Width of the grid in degrees")
    ] = 0.0001


class GeometryParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    simplify: Simplify | None = Field(None, description="Leave out vertices that matter little")
    quantize: Quantize | None = Field(None, description="Move vertices to a grid")

    @property
    def reduction(self) -> Reduction:
        simplify = self.simplify
        return Reduction(
            None if simplify is None else simplify.tolerance,
            True if simplify is None else simplify.preserve_topology,
            None if self.quantize is None else self.quantize.snap_to_grid,
        )


class FileParams(SourceParams):
    """The file, and what the order says about it."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    table_name: Annotated[str, Field(min_length=1, max_length=200, description="Name of the table, without its schema")]
    schema_name: Literal["geo"] = Field(
        default="geo",
        validation_alias=AliasChoices("schema", "schema_name"),
        description="The schema of public tables",
    )
    file_extension: Annotated[str, Field(max_length=20)] | None = Field(None, description="Instead of that of the name")
    layer_name: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        None, description="Layer to load, if the file has several"
    )
    layer_names: Annotated[list[str], Field(min_length=1, max_length=MOST_LAYERS)] | None = Field(
        None, description="Layers to load, each as a table of its own"
    )
    lat_name: str | None = Field(
        default=None, validation_alias=AliasChoices("lat_name", "lat_column"), description="CSV: column of latitudes"
    )
    lon_name: str | None = Field(
        default=None, validation_alias=AliasChoices("lon_name", "lon_column"), description="CSV: column of longitudes"
    )
    wkt_column: str | None = Field(None, description="CSV: column of geometries as WKT")
    crs: str | None = Field(None, description="Coordinate system of a file that names none, as EPSG:n")
    column_mapping: dict[str, str] = Field(default_factory=dict, description="New names of columns, by their old ones")
    geometry_params: GeometryParams = Field(default_factory=lambda: GeometryParams())
    chunk_size: Annotated[int, Field(ge=100, le=500_000)] | None = Field(
        None, description="Features per file; 100,000 by default"
    )
    container: Container = Field(VECTORS, description="Container in silver for the prepared files")
    target: Literal["postgis", "geoparquet"] = Field("postgis", description="geoparquet: files only, no tables")
    overwrite: bool = Field(False, description="Replace a table of the same name that belongs to no asset")

    @model_validator(mode="after")
    def _check_words(self) -> Self:
        fault = table_name_fault(self.table_name)
        if fault is not None:
            raise ValueError(fault)
        if self.layer_name is not None and self.layer_names is not None:
            raise ValueError("give layer_name or layer_names, not both")
        if (self.lat_name is None) != (self.lon_name is None):
            raise ValueError("lat_name and lon_name go together")
        if self.wkt_column is not None and self.lat_name is not None:
            raise ValueError("give lat_name and lon_name, or wkt_column, not both")
        return self

    @property
    def table(self) -> str:
        return joined(self.table_name)

    @property
    def wish(self) -> Wish:
        names = [self.layer_name] if self.layer_name is not None else self.layer_names
        return Wish(self.file_extension, names, GeometryColumns(self.lat_name, self.lon_name, self.wkt_column))


class GeometryGroup(BaseModel):
    geometry_type: str
    row_count: int
    table_name: str


class Chunk(BaseModel):
    """Files of the manifest, from the first to the last."""

    first: int
    last: int


class PrepareOutput(BaseModel):
    manifest: BlobRef
    files: list[BlobRef] = Field(description="The GeoParquet files, at most 100; the manifest names all of them")
    chunks: list[Chunk] = Field(description="What one task loads each")
    num_chunks: int
    total_features: int
    original_row_count: int
    rows_removed: int
    tables: list[str]
    columns: list[PreparedColumn] = Field(description="Of the first table: new name, name in the file, type")
    geometry_groups: list[GeometryGroup]
    source: BlobRef
    source_format: str
    crs_input: str
    crs_output: str
    bbox: Bounds
    vertices: dict[str, int] | None = Field(None, description="Before and after simplification")
    warnings: list[dict[str, Any]]


@handler("vector.prepare", aliases=["vector_prepare"], output=PrepareOutput)
def prepare(ctx: HandlerContext[FileParams]) -> HandlerResult:
    """Reads a vector file, cleans it and writes it as GeoParquet files in silver, ready to be loaded as tables."""
    params = ctx.params
    if params.target == "postgis":
        _require_free(ctx)
    with open_vector(ctx, params.address, params.wish) as file:
        preparation = Preparation(ctx, file)
        for layer in file.layers:
            preparation.add(layer)
    return preparation.result()


class Preparation:
    """One file on its way: layers are added one after the other."""

    def __init__(self, ctx: HandlerContext[FileParams], file: OpenedFile) -> None:
        self._ctx = ctx
        self._file = file
        self._findings = Findings()
        self._tables: list[PreparedTable] = []
        self._parts: list[PreparedPart] = []
        self._source_rows = 0
        self._crs = ""
        self._vertices = Vertices()

    def add(self, layer: Layer) -> None:
        ctx, params = self._ctx, self._ctx.params
        name = self._file.source.path.rpartition("/")[2]
        for finding, count in layer.findings.counts.items():
            self._findings.add(finding, layer.findings.messages[finding], count, layer.findings.samples[finding])
        layer.findings.counts.clear()
        degrees = ToDegrees(layer.crs, params.crs, name, is_required=layer.is_crs_required, findings=self._findings)
        self._crs = self._crs or degrees.label
        cleaner = GeometryCleaner(name, degrees, params.geometry_params.reduction, self._findings)
        attributes = Attributes(layer.schema, params.column_mapping, name, self._findings)
        base = (
            params.table
            if len(self._file.layers) == 1
            else name_with(params.table, f"_{table_slug(layer.name)[:LAYER_CHARACTERS]}")
        )
        files: dict[Group, PartFiles] = {}
        rows = 0
        with WriteBehind() as keeper:
            with closing(read_ahead(self._parsed(layer, cleaner))) as batches, WriteBehind() as writer:
                for batch, parsed in batches:
                    clean = cleaner.clean_parsed(parsed)
                    columns = attributes.convert(batch.attributes)
                    for group in _groups_of(clean):
                        if group not in files:
                            files[group] = self._open_files(base, group, attributes, keeper)
                    writer.do(partial(_write, files, clean, columns))
                    rows += len(batch.geometries)
                    if ctx.cancelled:
                        break
                    ctx.progress(rows, layer.count, f"{rows:,} features of {layer.name}")
            for group_files in files.values():
                group_files.close()
        for finding, count in layer.findings.counts.items():
            self._findings.add(finding, layer.findings.messages[finding], count, layer.findings.samples[finding])
        self._source_rows += rows
        self._vertices.before += cleaner.vertices.before
        self._vertices.after += cleaner.vertices.after
        self._add_tables(base, layer, {group: files[group] for group in Group if group in files}, attributes)

    def _parsed(self, layer: Layer, cleaner: GeometryCleaner) -> Iterator[tuple[Batch, Parsed]]:
        """Read and parsed by another thread, while this one cleans the batch before."""
        rows = 0
        for batch in layer.batches():
            self._require_small(batch.geometries, rows)
            yield batch, cleaner.parse(batch.geometries, rows + 1, batch.reported)
            rows += len(batch.geometries)

    def _require_small(self, geometries: pa.Array, rows: int) -> None:
        """One feature is read whole, cleaned and copied: it must fit into memory several times."""
        largest = pc.max(pc.binary_length(geometries)).as_py() or 0
        limit = VectorLimits.from_variables().vector_max_feature_mb
        if largest > limit * MEGABYTE:
            raise VectorRefused(
                f"a feature after number {rows} has a geometry of {largest / MEGABYTE:,.0f} MB, and at most {limit:,} "
                "MB are accepted (RMHDAG_VECTOR_MAX_FEATURE_MB): split it, for example with ST_Subdivide.",
                code="FILE_TOO_LARGE",
            )

    def _open_files(self, base: str, group: Group, attributes: Attributes, keeper: WriteBehind) -> PartFiles:
        params, storage, scratch = self._ctx.params, self._ctx.storage, self._ctx.scratch
        rows = params.chunk_size or CHUNK_ROWS
        return PartFiles(storage, scratch, params.container, base, group, attributes.schema, rows, keeper)

    def _add_tables(self, base: str, layer: Layer, files: dict[Group, PartFiles], attributes: Attributes) -> None:
        if not files:
            raise VectorRefused(
                f"no feature of layer {layer.name!r} has a geometry that can be loaded: check the export.",
                code="VECTOR_GEOMETRY_EMPTY",
            )
        is_split = len(files) > 1
        if is_split:
            kinds = ", ".join(f"{group_files.row_count:,} {group}" for group, group_files in files.items())
            self._findings.add(
                Finding.TYPE_SPLIT,
                f"the layer mixes kinds of geometry, so that it becomes several tables: {kinds}",
                len(files),
            )
        columns, empty = (
            [PreparedColumn(**column._asdict()) for column in named]
            for named in (attributes.kept(), attributes.empty())
        )
        for group, group_files in files.items():
            name = name_with(base, f"_{group}") if is_split else base
            number = len(self._tables)
            self._tables.append(
                PreparedTable(
                    table_name=name,
                    stored_name=stored_name_of(name, self._ctx),
                    table_group=base,
                    geometry_type=GEOMETRY_TYPES[group],
                    layer=layer.name,
                    row_count=group_files.row_count,
                    bbox=group_files.bbox,
                    columns=columns,
                    is_split=is_split,
                    spans=group_files.spans,
                    empty_columns=empty,
                )
            )
            first_id = 1
            for part, row_count in group_files.files:
                self._parts.append(PreparedPart(table=number, file=part, row_count=row_count, first_id=first_id))
                first_id += row_count

    def result(self) -> HandlerResult:
        params, ctx = self._ctx.params, self._ctx
        names = [table.table_name for table in self._tables]
        if len(set(names)) != len(names):
            raise VectorRefused(
                f"two layers would have the same table {names[0]!r}: load them one by one.",
                code="VECTOR_TABLE_NAME_INVALID",
            )
        manifest = Manifest(
            tables=self._tables, parts=self._parts, source_format=self._file.format, crs_input=self._crs
        )
        text = manifest.model_dump_json().encode()
        address = BlobAddress(
            Zone.SILVER, params.container, f"{params.table}/manifest-{digest(text.decode())[:16]}.json"
        )
        file = ctx.storage.write(address, text)
        warnings = self._findings.warnings()
        boxes = [table.bbox for table in self._tables if table.bbox is not None]
        output = PrepareOutput(
            manifest=file,
            files=[part.file for part in self._parts[:MOST_FILES]],
            chunks=chunks_of(len(self._parts)),
            num_chunks=len(self._parts),
            total_features=manifest.row_count,
            original_row_count=self._source_rows,
            rows_removed=self._source_rows - manifest.row_count,
            tables=names,
            columns=self._tables[0].columns,
            geometry_groups=[
                GeometryGroup(geometry_type=table.geometry_type, row_count=table.row_count, table_name=table.table_name)
                for table in self._tables
            ],
            source=self._file.source,
            source_format=self._file.format,
            crs_input=self._crs,
            crs_output=TARGET,
            bbox=[
                min(box[0] for box in boxes),
                min(box[1] for box in boxes),
                max(box[2] for box in boxes),
                max(box[3] for box in boxes),
            ],
            vertices=None
            if not self._vertices.before
            else {"before": self._vertices.before, "after": self._vertices.after},
            warnings=[orjson.loads(warning.model_dump_json()) for warning in warnings],
        )
        claim = (
            [TableClaimRecord(table_names=tuple(names), overwrite=params.overwrite)]
            if params.target == "postgis"
            else []
        )
        return HandlerResult(
            output=output.model_dump(mode="json"),
            warnings=warnings,
            records=(
                *claim,
                *(part.file.record("data") for part in self._parts),
                file.record("manifest"),
                *lineage_from(ctx.storage, params.place),
            ),
        )


def _groups_of(clean: Cleaned) -> list[Group]:
    return [group for type_id, group in GROUP_OF_TYPE.items() if (clean.types == type_id).any()]


def _write(files: Mapping[Group, PartFiles], clean: Cleaned, columns: list[pa.Array]) -> None:
    """Each kind of geometry into its files."""
    for type_id, group in GROUP_OF_TYPE.items():
        mask = clean.types == type_id
        if not mask.any():
            continue
        if mask.all() and len(clean.rows) == len(columns[0] if columns else clean.rows):
            files[group].write(clean.wkb, columns, clean.bounds)
        else:
            rows = pa.array(clean.rows[mask])
            files[group].write(
                clean.wkb.filter(pa.array(mask)), [column.take(rows) for column in columns], clean.bounds[mask]
            )


def chunks_of(parts: int) -> list[Chunk]:
    """A bounded number of tasks, whatever the number of files."""
    size = max(1, -(-parts // MOST_CHUNKS))
    return [Chunk(first=first, last=min(first + size, parts) - 1) for first in range(0, parts, size)]


def stored_name_of(table_name: str, ctx: HandlerContext[Any]) -> str:
    """The same in every attempt of the job, and in no other job."""
    ending = digest(f"{ctx.namespace}/{ctx.job_id}/{table_name}")[:10]
    return name_with(table_name[:MOST_TABLE_CHARACTERS], f"_{ending}")


def _require_free(ctx: HandlerContext[FileParams]) -> None:
    """Before the file is read. Who owns a table of ours is decided with the result."""
    table = ctx.params.table
    if table.startswith(CURATED):
        raise VectorRefused(
            f"names that begin with {CURATED} are for system data: choose another name.",
            code="VECTOR_TABLE_NAME_INVALID",
        )
    with ctx.postgis.connect() as conn:
        if has_foreign_table(ctx.postgis, conn, table):
            raise VectorRefused(
                f"{ctx.postgis.schema}.{table} exists and was not made by rmhdag: choose another table_name.",
                code="TABLE_EXISTS",
            )
