"""What a search for any id or name finds."""

from enum import StrEnum

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class HitKind(StrEnum):
    JOB = "job"
    NODE = "node"
    TASK = "task"
    REQUEST = "request"
    ASSET = "asset"
    WORKFLOW = "workflow"


class SearchHit(ApiModel):
    kind: HitKind
    id: str
    title: str = Field(description="What to show for it")
    note: str = Field(description="What tells it from others of its kind")
    status: str | None = None
    job_id: str | None = Field(default=None, description="The job that it belongs to")
    node_id: str | None = None
    workflow_id: str | None = None


class SearchHits(ApiModel):
    hits: list[SearchHit] = Field(description="At most 8 of a kind, the newest first")
