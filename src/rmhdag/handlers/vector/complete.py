"""vector.docker_complete: a file becomes indexed tables in one task, by the parts that do each step alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from pydantic import Field

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import is_unchanged
from rmhdag.handlers.vector.manifest import read_manifest
from rmhdag.handlers.vector.prepare import FileParams, PrepareOutput, prepare
from rmhdag.handlers.vector.tables import (
    CatalogueParams,
    Indexes,
    ShownTable,
    TableSummary,
    TableWords,
    index_all,
    shown_tables,
    table_records,
)
from rmhdag.handlers.vector.upload import create_tables, load_part
from rmhdag.models.blobs import BlobRef
from rmhdag.models.handler_result import DataWarning, HandlerResult
from rmhdag.models.records import decode_records

VALIDATED, TABLES_CREATED, LOADED, COMPLETE = "validated", "table_created", "chunk_{}", "complete"
# A checkpoint is small: what has more files starts over, and finds those that were loaded.
MOST_SAVED_RECORDS = 100


class CompleteParams(FileParams, TableWords):
    """The file, what the tables are to have, and what people say about them."""

    indexes: Indexes | Annotated[list[str], Field(max_length=20)] = Field(default_factory=Indexes)
    temporal_property: str | None = Field(None, description="Column with the time of a feature")
    split_column: str | None = Field(None, description="Make a view for each value of this column, at most 20")


class CompleteOutput(PrepareOutput):
    """What the file was, the tables that were loaded, and the names that show them."""

    tables_created: list[TableSummary]
    shown: list[ShownTable]


@handler("vector.docker_complete", aliases=["vector_docker_complete", "vector_docker_etl"], output=CompleteOutput)
async def docker_complete(ctx: HandlerContext[CompleteParams]) -> AsyncGenerator[Any, None]:
    """Prepares a vector file, loads it, indexes the tables and hands them over, in one task; continues after the last
    file that was loaded.
    """
    params = ctx.params
    saved = resumed(ctx)
    if saved is None:
        words = {name: getattr(params, name) for name in FileParams.model_fields}
        ready = prepare(ctx.part(FileParams.model_construct(**words), 0, 50))
        saved = {
            "prepared": ready.output,
            "warnings": [warning.model_dump(mode="json") for warning in ready.warnings],
            "records": [record.model_dump(mode="json", exclude_none=True) for record in ready.records],
        }
        if is_saved(saved):
            yield {"type": "checkpoint", "phase": VALIDATED, "data": saved}
    manifest = read_manifest(ctx, BlobRef.model_validate(saved["prepared"]["manifest"]))
    with ctx.postgis.connect() as conn:
        rows = 0
        create_tables(ctx, conn, manifest)
        if is_saved(saved):
            yield {"type": "checkpoint", "phase": TABLES_CREATED, "data": saved}
        for number in range(len(manifest.parts)):
            # Files that an earlier run has loaded are found in the ledger of the data database.
            chunk = load_part(ctx, conn, manifest, number)
            rows += chunk.row_count
            ctx.progress(50 + 35 * (number + 1) / len(manifest.parts), 100, f"{rows:,} rows loaded")
            if chunk.is_new and is_saved(saved):
                yield {"type": "checkpoint", "phase": LOADED.format(number), "data": saved}
        summaries = index_all(ctx.part(None, 85, 95), conn, manifest, params.indexes)
        catalogue = catalogue_params(params, saved["prepared"]["manifest"], summaries)
        records = table_records(ctx, conn, manifest, summaries, catalogue)
    if is_saved(saved):
        yield {"type": "checkpoint", "phase": COMPLETE, "data": saved}
    ctx.progress(100, 100, f"{rows:,} rows indexed")
    yield HandlerResult(
        output={
            **saved["prepared"],
            "tables_created": [table.model_dump(mode="json") for table in summaries],
            "shown": shown_tables(ctx, records).model_dump(mode="json")["tables_created"],
        },
        warnings=tuple(DataWarning.model_validate(warning) for warning in saved["warnings"]),
        records=(*decode_records(saved["records"]), *records),
    )


def is_saved(saved: dict[str, Any]) -> bool:
    return len(saved["records"]) <= MOST_SAVED_RECORDS


def catalogue_params(params: CompleteParams, manifest: Any, summaries: list[TableSummary]) -> CatalogueParams:
    words = {name: getattr(params, name) for name in TableWords.model_fields}
    return CatalogueParams(
        manifest=BlobRef.model_validate(manifest),
        tables=summaries,
        overwrite=params.overwrite,
        temporal_property=params.temporal_property,
        split_column=params.split_column,
        **words,
    )


def resumed(ctx: HandlerContext[CompleteParams]) -> dict[str, Any] | None:
    """What an earlier run has prepared, if its manifest is still there."""
    saved = None if ctx.resume is None else ctx.resume.data
    if not isinstance(saved, dict) or "prepared" not in saved:
        return None
    if not is_unchanged(ctx.storage, BlobRef.model_validate(saved["prepared"]["manifest"])):
        ctx.logger.warning("what was prepared before is gone: starting from the beginning")
        return None
    ctx.logger.info("continuing with what was prepared before")
    return dict(saved)
