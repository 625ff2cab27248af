"""`maintenance.unpublish_raster` and `unpublish_vector`: take a revision, or a whole asset, back."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.registry import handler
from rmhdag.models.columns import Message
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.id_types import AssetId, StacId
from rmhdag.models.ids import unpublishing_id_of
from rmhdag.models.records import Revision, TableName, UnpublishRecord


class UnpublishParams(BaseModel):
    """`stac_item_id` and `force_approved` are the names of the original system."""

    model_config = ConfigDict(extra="forbid")

    asset_id: AssetId | None = None
    revision: Revision | None = Field(None, description="All revisions of the asset, if not given")
    collection_id: StacId | None = None
    item_id: StacId | None = None
    stac_item_id: StacId | None = Field(None, description="The same as item_id")
    dry_run: bool = Field(True, description="Only record what would be deleted")
    force: bool = Field(False, description="Also approved content, which is revoked by it")
    force_approved: bool = Field(False, description="The same as force")
    reason: Message | None = None

    def record(self) -> UnpublishRecord:
        return UnpublishRecord(
            asset_id=self.asset_id,
            revision=self.revision,
            collection_id=self.collection_id,
            item_id=self.item_id or self.stac_item_id,
            dry_run=self.dry_run,
            force=self.force or self.force_approved,
            reason=self.reason,
        )

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        self.record()
        return self


@handler(
    "maintenance.unpublish_raster",
    aliases=["maintenance_unpublish_raster", "unpublish_raster"],
    light=True,
    timeout_seconds=60,
)
async def unpublish_raster(ctx: HandlerContext[UnpublishParams]) -> HandlerResult:
    """Deletes the files of a revision or asset and removes it from the catalogue; by default only records a preview.
    What was or would be deleted is shown by `GET /api/v1/assets/{asset_id}/unpublishings`.
    """
    params = ctx.params
    unpublishing_id = None
    if params.asset_id is not None and params.revision is not None:
        place = (ctx.namespace, params.asset_id, params.revision)
        unpublishing_id = unpublishing_id_of(ctx.idempotency_key, *place)
    return HandlerResult(
        output={
            "asset_id": params.asset_id,
            "revision": params.revision,
            "dry_run": params.dry_run,
            "unpublishing_id": unpublishing_id,
        },
        records=(params.record(),),
    )


class UnpublishVectorParams(BaseModel):
    """`table_name` is the name of the original system; an asset is named as for rasters."""

    model_config = ConfigDict(extra="forbid")

    table_name: TableName | None = Field(None, description="A public table; its whole revision is taken back")
    schema_name: Literal["geo"] = "geo"
    asset_id: AssetId | None = None
    revision: Revision | None = Field(None, description="All revisions of the asset, if not given")
    dry_run: bool = Field(True, description="Only record what would be deleted")
    force: bool = Field(False, description="Also approved content, which is revoked by it")
    force_approved: bool = Field(False, description="The same as force")
    force_curated: bool = Field(False, description="Also tables whose names begin with curated_")
    reason: Annotated[Message, Field(max_length=2_000)] | None = None

    def record(self) -> UnpublishRecord:
        return UnpublishRecord(
            table_name=self.table_name,
            asset_id=self.asset_id,
            revision=self.revision,
            dry_run=self.dry_run,
            force=self.force or self.force_approved,
            reason=self.reason,
        )

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        if self.table_name is not None and self.table_name.startswith("curated_") and not self.force_curated:
            raise ValueError("tables whose names begin with curated_ are system data: force_curated drops them")
        self.record()
        return self


@handler(
    "maintenance.unpublish_vector",
    aliases=["maintenance_unpublish_vector", "unpublish_vector"],
    light=True,
    timeout_seconds=60,
)
async def unpublish_vector(ctx: HandlerContext[UnpublishVectorParams]) -> HandlerResult:
    """Drops the tables of a revision or asset, deletes its files and removes it from the catalogue; by default only
    records a preview. What was or would be deleted is shown by `GET /api/v1/assets/{asset_id}/unpublishings`.
    """
    params = ctx.params
    return HandlerResult(
        output={
            "table_name": params.table_name,
            "asset_id": params.asset_id,
            "revision": params.revision,
            "dry_run": params.dry_run,
        },
        records=(params.record(),),
    )
