"""vector.upload_chunk: prepared GeoParquet files are copied into a table that nobody sees yet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, model_validator

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.registry import handler
from rmhdag.handlers.vector.geoparquet import GEOMETRY
from rmhdag.handlers.vector.manifest import Manifest, PreparedColumn, PreparedPart, PreparedTable, read_manifest
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.models.blobs import BlobRef
from rmhdag.postgis.database import Conn
from rmhdag.postgis.loading import ColumnDefinition, LoadedChunk, create_table, load_chunk
from rmhdag.storage import BlobNotFound

BATCH_ROWS = 10_000
REMOTE = "/vsi"


class UploadParams(BaseModel):
    """The prepared data, and which of its files to load."""

    model_config = ConfigDict(extra="forbid")

    manifest: BlobRef = Field(description="Output of vector.prepare")
    first: Annotated[int, Field(ge=0)] | None = Field(None, description="The first file to load")
    last: Annotated[int, Field(ge=0)] | None = Field(None, description="The last file to load")
    chunk_index: Annotated[int, Field(ge=0)] | None = Field(None, description="One file, instead of first and last")

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if (self.first is None) != (self.last is None) or (self.first is None) == (self.chunk_index is None):
            raise ValueError("say which files to load: first and last, or chunk_index")
        return self

    @property
    def parts(self) -> range:
        if self.first is None or self.last is None:
            return range(self.chunk_index or 0, (self.chunk_index or 0) + 1)
        return range(self.first, self.last + 1)


class UploadOutput(BaseModel):
    batch_id: str
    rows_inserted: int = Field(description="Rows of these files that are in the table now")
    rows_deleted: int = Field(description="Rows of an earlier content of these files")
    rows_found: int = Field(description="Of rows_inserted: loaded by an earlier attempt")


@handler("vector.upload_chunk", aliases=["vector_upload_chunk"])
def upload_chunk(ctx: HandlerContext[UploadParams]) -> UploadOutput:
    """Copies prepared files into their table in PostGIS, each in one transaction. A repetition changes nothing."""
    params = ctx.params
    manifest = read_manifest(ctx, params.manifest)
    if params.parts.stop > len(manifest.parts):
        raise VectorRefused(
            f"there are {len(manifest.parts)} files, and file {params.parts.stop - 1} was asked for.",
            code="INVALID_PARAMETER",
        )
    inserted = deleted = found_rows = 0
    with ctx.postgis.connect() as conn:
        for done, number in enumerate(params.parts):
            chunk = load_part(ctx, conn, manifest, number)
            inserted, deleted = inserted + chunk.row_count, deleted + chunk.deleted_count
            found_rows += 0 if chunk.is_new else chunk.row_count
            ctx.progress(done + 1, len(params.parts), f"{inserted:,} rows")
    return UploadOutput(
        batch_id=f"{params.parts.start}-{params.parts.stop - 1}",
        rows_inserted=inserted,
        rows_deleted=deleted,
        rows_found=found_rows,
    )


def create_tables(ctx: HandlerContext[Any], conn: Conn, manifest: Manifest) -> None:
    for table in manifest.tables:
        _create_table(ctx, conn, table)


def load_part(ctx: HandlerContext[Any], conn: Conn, manifest: Manifest, number: int) -> LoadedChunk:
    part = manifest.parts[number]
    table = manifest.tables[part.table]
    columns = _create_table(ctx, conn, table)
    chunk = load_chunk(
        ctx.postgis,
        conn,
        table.stored_name,
        str(number),
        part.file.sha256,
        part.first_id,
        columns,
        batches_of(ctx, part, table.columns),
    )
    if chunk.row_count != part.row_count:
        raise RuntimeError(f"{chunk.row_count:,} rows of file {number} were loaded, and it has {part.row_count:,}")
    return chunk


def _create_table(ctx: HandlerContext[Any], conn: Conn, table: PreparedTable) -> list[ColumnDefinition]:
    """Unless an earlier attempt has made it."""
    columns = [ColumnDefinition(column.name, column.type) for column in table.columns]
    create_table(ctx.postgis, conn, table.stored_name, table.geometry_type, columns)
    return columns


def batches_of(
    ctx: HandlerContext[Any], part: PreparedPart, columns: Sequence[PreparedColumn]
) -> Iterator[pa.RecordBatch]:
    """The rows of a file: its geometry, then the columns. Read only if somebody asks for them."""
    with _local_file(ctx, part) as path, pq.ParquetFile(path, pre_buffer=False) as file:
        names = [GEOMETRY, *(column.name for column in columns)]
        for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
            yield batch.select(names)
            if ctx.cancelled:
                raise InterruptedError("the task was asked to stop; its rows are loaded again by the next attempt")


@contextmanager
def _local_file(ctx: HandlerContext[Any], part: PreparedPart) -> Iterator[str]:
    """The file itself if storage is a folder; otherwise a copy, which must be what was prepared."""
    address = part.file.address
    try:
        with ctx.storage.gdal_source(address) as source:
            if not source.path.startswith(REMOTE):
                if os.stat(source.path).st_size != part.file.size_bytes:
                    raise _changed(part)
                yield source.path
                return
        local = ctx.scratch / f"part-{part.file.sha256[:16]}.parquet"
        copy = ctx.storage.download(address, local)
    except BlobNotFound:
        raise VectorRefused(
            f"the prepared file {address} was deleted: prepare the data again.", code="FILE_NOT_FOUND"
        ) from None
    try:
        if copy.sha256 != part.file.sha256:
            raise _changed(part)
        yield str(local)
    finally:
        local.unlink(missing_ok=True)


def _changed(part: PreparedPart) -> VectorRefused:
    return VectorRefused(
        f"the prepared file {part.file.address} was changed: prepare the data again.", code="CORRUPTED_FILE"
    )
