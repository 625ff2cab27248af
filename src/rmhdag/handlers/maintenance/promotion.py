"""`approval.promote_to_external`: external services are notified of a public revision."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.registry import handler
from rmhdag.models.columns import Name
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.id_types import AssetId
from rmhdag.models.records import ExternalPromotionRecord, Revision


class PromotionParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    asset_id: AssetId
    revision: Revision | None = Field(None, description="The one that is served, if not given")
    service: Name | None = Field(None, description="Only this external service; else all that are enabled")


@handler(
    "approval.promote_to_external",
    aliases=["approval_promote_to_external", "promote_to_external"],
    light=True,
    timeout_seconds=60,
)
async def promote_to_external(ctx: HandlerContext[PromotionParams]) -> HandlerResult:
    """Announces a public revision to external services. The node completes when the calls are in the outbox; an
    orchestrator makes them, watches pipelines to their end and records where the copy is.
    """
    params = ctx.params
    record = ExternalPromotionRecord(asset_id=params.asset_id, revision=params.revision, service=params.service)
    return HandlerResult(
        output={"asset_id": params.asset_id, "revision": params.revision, "service": params.service}, records=(record,)
    )
