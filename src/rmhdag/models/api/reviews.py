"""Decisions about the content of revisions, over HTTP."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.jobs import RequestBody
from rmhdag.models.assets import ApprovalState, AssetKind, Classification
from rmhdag.models.columns import varchar
from rmhdag.models.limits import REASON_CHARACTERS
from rmhdag.models.plain_text import refuse_deceiving_lines
from rmhdag.models.records import ContentHash
from rmhdag.models.reviews import Clearance

Reason = Annotated[str, varchar(REASON_CHARACTERS, min_length=1), AfterValidator(refuse_deceiving_lines)]


class _DecisionBody(RequestBody):
    content_hash: ContentHash = Field(
        description="Of the content that was reviewed; 409 if the revision has another",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    )


class Approval(_DecisionBody):
    clearance: Clearance
    reason: Reason | None = None


class Rejection(_DecisionBody):
    reason: Reason = Field(description="What the submitter reads")


class Revocation(_DecisionBody):
    reason: Reason = Field(description="What the submitter reads")


class ClearanceChange(_DecisionBody):
    clearance: Clearance = Classification.PUBLIC
    reason: Reason | None = None


class ReviewView(ApiModel):
    """A revision that waits for a reviewer."""

    asset_id: str
    revision: int
    platform_id: str
    platform_refs: dict[str, str]
    kind: AssetKind
    version_label: str | None
    content_hash: str = Field(description="Name it in the decision")
    submitted_by: str
    message: str | None
    waiting_since: datetime
    served_revision: int | None = Field(description="What the asset serves until this one is approved")
    approve_path: str = Field(description='POST {"content_hash": …, "clearance": "public"} to this path')
    command: str = Field(description="The same on the command line")


class ReviewPage(ApiModel):
    reviews: list[ReviewView] = Field(description="Longest waiting first")
    next_cursor: str | None


class DecisionView(ApiModel):
    asset_id: str
    revision: int
    review_state: ApprovalState
    clearance: Classification
    served_revision: int | None = Field(description="What the asset serves now; null for nothing")
    notices: list[str] = Field(description="What external services learn of it, or why none does")
