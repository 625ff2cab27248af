"""raster.create_cog: a raster from anywhere in storage becomes a cloud-optimised GeoTIFF in silver."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.raster.cog_files import CogLayout, CogOptions, write_cog
from rmhdag.handlers.raster.opening import open_raster, reading
from rmhdag.handlers.raster.outputs import COG, COGS, item_id_of, keep_file, lineage_from
from rmhdag.handlers.raster.writing import ProgressCallback, watch
from rmhdag.handlers.registry import handler
from rmhdag.handlers.sources import NamedBlob, SourceParams
from rmhdag.models.blobs import BlobAddress, BlobRef, Container
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.id_types import StacId


class CreateCogParams(SourceParams, CogOptions):
    """The source, what it is to be called, and how it is to be written."""

    item_id: StacId | None = None
    container: Container = COGS
    made_from: Annotated[
        BlobRef | NamedBlob | None,
        Field(description="What an intermediate source was made from; recorded in the lineage"),
    ] = None


@handler("raster.create_cog", aliases=["raster_create_cog", "create_cog", "raster_cog_docker"])
def create_cog(ctx: HandlerContext[CreateCogParams]) -> HandlerResult:
    """Writes a raster as a cloud-optimised GeoTIFF with overviews, checks it strictly, and keeps it in silver."""
    params = ctx.params
    item_id = params.item_id or item_id_of(params.place)
    cog, layout = make_cog(ctx, params.address, item_id, params.container, params, watch(ctx))
    origin = params.place if params.made_from is None else params.made_from.address
    return HandlerResult(
        output=cog_output(cog, layout),
        records=(cog.record("data"), *lineage_from(ctx.storage, origin)),
    )


def make_cog(
    ctx: HandlerContext[Any],
    source: BlobRef | BlobAddress,
    item_id: str,
    container: str,
    options: CogOptions,
    tell: ProgressCallback,
) -> tuple[BlobRef, CogLayout]:
    local = ctx.scratch / "cog.tif"
    name = source.address if isinstance(source, BlobRef) else source
    with open_raster(ctx, source, is_read_whole=True) as dataset, reading(dataset.name, name):
        layout = write_cog(dataset, local, ctx.scratch, options, tell)
    cog = keep_file(ctx.storage, local, container, item_id, media_type=COG)
    local.unlink()
    ctx.logger.info("kept %s, %d bytes", cog.address, cog.size_bytes)
    return cog, layout


def cog_output(cog: BlobRef, layout: CogLayout) -> dict[str, Any]:
    return {"cog": cog.model_dump(mode="json"), **layout._asdict()}
