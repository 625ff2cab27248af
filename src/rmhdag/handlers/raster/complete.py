"""raster.process_complete: check, COG and STAC item in one task, by the handlers that do each of them alone."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from pydantic import Field

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.raster.cog import CreateCogParams, create_cog
from rmhdag.handlers.raster.cog_files import CogOptions
from rmhdag.handlers.raster.outputs import COGS, item_id_of, lineage_from
from rmhdag.handlers.raster.validate import MostNodata, ValidateParams, validate
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import SourceParams, is_unchanged
from rmhdag.handlers.stac.items import ItemWords
from rmhdag.handlers.stac.metadata import ExtractParams, extract_stac_metadata
from rmhdag.models.blobs import BlobRef, Container
from rmhdag.models.handler_result import DataWarning, HandlerResult
from rmhdag.models.id_types import StacId

VALIDATED, CONVERTED = "validated", "converted"


class ProcessCompleteParams(SourceParams, CogOptions, ItemWords):
    """The source, how its COG is to be written, and what people say about the item."""

    item_id: StacId | None = None
    collection_id: Annotated[StacId, Field(description="To which the item belongs")] = "rasters"
    container: Container = COGS
    most_nodata_percent: MostNodata = 99.0
    checkpoint_seconds: Annotated[
        float,
        Field(ge=0, le=3600, allow_inf_nan=False, description="A phase that took less is done again rather than saved"),
    ] = 1.0


@handler("raster.process_complete", aliases=["raster_process_complete"])
async def process_complete(ctx: HandlerContext[ProcessCompleteParams]) -> AsyncGenerator[Any, None]:
    """Checks a raster, writes its COG and describes it as a STAC item; goes on after the last phase that was saved."""
    params = ctx.params
    item_id = params.item_id or item_id_of(params.place)
    done = resumed(ctx)
    saved_at = time.monotonic()
    if VALIDATED not in done:
        done = {VALIDATED: validate(ctx.part(validate_params(params), 0, 10)).output}
        if time.monotonic() - saved_at >= params.checkpoint_seconds:
            yield {"type": "checkpoint", "phase": VALIDATED, "data": done}
            saved_at = time.monotonic()
    source = BlobRef.model_validate(done[VALIDATED]["source"])
    if CONVERTED not in done:
        cog_params = CreateCogParams(
            source=source,
            item_id=item_id,
            container=params.container,
            **{name: getattr(params, name) for name in CogOptions.model_fields},
        )
        done = {**done, CONVERTED: create_cog(ctx.part(cog_params, 10, 85)).output}
        if time.monotonic() - saved_at >= params.checkpoint_seconds:
            yield {"type": "checkpoint", "phase": CONVERTED, "data": done}
    cog = BlobRef.model_validate(done[CONVERTED]["cog"])
    words = {name: getattr(params, name) for name in ItemWords.model_fields}
    described = extract_stac_metadata(
        ctx.part(
            ExtractParams(
                cog=cog, collection_id=params.collection_id, item_id=item_id, source=source, file_time=None, **words
            ),
            85,
            100,
        )
    )
    ctx.progress(100, 100, "described")
    output: Any = described.output
    # Those of a checkpoint of an earlier version are not known.
    validated = [DataWarning.model_validate(warning) for warning in done[VALIDATED].get("warnings", [])]
    warnings = (*validated, *described.warnings)
    codes = [warning.code for warning in warnings]
    yield HandlerResult(
        output={
            "validation": done[VALIDATED],
            **done[CONVERTED],
            **output,
            "item_id": item_id,
            "warning_codes": codes,
        },
        warnings=warnings,
        records=(
            cog.record("data"),
            BlobRef.model_validate(output["thumbnail"]).record("thumbnail"),
            BlobRef.model_validate(output["footprint_file"]).record("footprint"),
            *lineage_from(ctx.storage, source.address),
        ),
    )


def validate_params(params: ProcessCompleteParams) -> ValidateParams:
    """Including the nodata value, if it is a number."""
    source = {name: getattr(params, name) for name in SourceParams.model_fields}
    return ValidateParams(
        **source,
        nodata=params.nodata if isinstance(params.nodata, float) else None,
        most_nodata_percent=params.most_nodata_percent,
    )


def resumed(ctx: HandlerContext[ProcessCompleteParams]) -> dict[str, Any]:
    """Results of earlier runs that are still valid: their files must exist unchanged."""
    saved: dict[str, Any] = dict(ctx.resume.data) if ctx.resume is not None else {}
    if VALIDATED in saved and not is_unchanged(ctx.storage, BlobRef.model_validate(saved[VALIDATED]["source"])):
        ctx.logger.warning("the source is not what was checked before: starting from the beginning")
        return {}
    if CONVERTED in saved and not is_unchanged(ctx.storage, BlobRef.model_validate(saved[CONVERTED]["cog"])):
        ctx.logger.warning("the COG of an earlier run is missing or changed: it is created again")
        del saved[CONVERTED]
    if saved:
        ctx.logger.info("going on after %s", ", ".join(saved))
    return saved
