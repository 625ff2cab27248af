"""Handlers that ask for a review of a revision, or decide about one on behalf of the job's submitter.

The platform checks the records in the transaction that completes the node: an illegal step fails the node, and says
which state it would have needed.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.registry import handler
from rmhdag.models.columns import Message
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.id_types import AssetId
from rmhdag.models.records import ApprovalDecisionRecord, ApprovalRequestRecord, ContentHash, Revision
from rmhdag.models.reviews import Clearance


class TriggerParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    asset_id: AssetId | None = Field(None, description="Without it, the revision that this job makes")
    revision: Revision | None = Field(None, description="Goes with `asset_id`")
    content_hash: ContentHash | None = Field(None, description="If given, the revision must have this content")
    message: Message | None = Field(None, description="What reviewers read")

    @model_validator(mode="after")
    def _check_revision(self) -> TriggerParams:
        if (self.asset_id is None) != (self.revision is None):
            raise ValueError("asset_id and revision belong together: give both, or none for the job's own revision")
        return self


class DecisionParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    asset_id: AssetId
    revision: Revision
    content_hash: ContentHash = Field(description="Of the content that was reviewed; refused if it is another by now")


class ApproveParams(DecisionParams):
    clearance: Clearance
    reason: Message | None = None


class RejectParams(DecisionParams):
    reason: Message = Field(min_length=1, description="What the submitter reads")


class DecisionOutput(BaseModel):
    asset_id: str
    revision: int
    decision: Literal["approved", "rejected"]
    clearance: str | None = None


@handler("approval.trigger", aliases=["approval_trigger"])
def trigger(ctx: HandlerContext[TriggerParams]) -> HandlerResult:
    """Asks for a review: the revision that the job makes is served only after an approval."""
    params = ctx.params
    record = ApprovalRequestRecord(
        asset_id=params.asset_id,
        revision=params.revision,
        content_hash=params.content_hash,
        message=params.message,
    )
    return HandlerResult(output={"requested": True}, records=(record,))


@handler(
    "approval.approve_dataset",
    aliases=["approval.approve", "approve_dataset", "approval_approve", "approval_approve_dataset"],
    output=DecisionOutput,
)
def approve_dataset(ctx: HandlerContext[ApproveParams]) -> HandlerResult:
    """Approves a revision on behalf of the job's submitter, who must be a reviewer."""
    clearance = "public" if ctx.params.clearance == "public" else "restricted"
    return _decide(ctx.params, "approve", clearance=clearance, reason=ctx.params.reason)


@handler(
    "approval.reject_dataset",
    aliases=["approval.reject", "reject_dataset", "approval_reject", "approval_reject_dataset"],
    output=DecisionOutput,
)
def reject_dataset(ctx: HandlerContext[RejectParams]) -> HandlerResult:
    """Rejects a revision on behalf of the job's submitter, who must be a reviewer."""
    return _decide(ctx.params, "reject", reason=ctx.params.reason)


def _decide(params: DecisionParams, decision: Literal["approve", "reject"], **words: Any) -> HandlerResult:
    record = ApprovalDecisionRecord(
        asset_id=params.asset_id,
        revision=params.revision,
        content_hash=params.content_hash,
        decision=decision,
        **words,
    )
    output = {
        "asset_id": params.asset_id,
        "revision": params.revision,
        "decision": "approved" if decision == "approve" else "rejected",
        "clearance": record.clearance,
    }
    return HandlerResult(output=output, records=(record,))
