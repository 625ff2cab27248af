"""How far a job or a node is."""

from datetime import datetime

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.states import JobStatus, NodeStatus


class ProgressCounts(ApiModel):
    """All nodes, children of fan-outs included; those that are not born yet are pending."""

    total: int = 0
    completed: int = 0
    running: int = 0
    dispatched: int = 0
    pending: int = Field(default=0, description="Waiting for others, for a retry or for a place in the queue")
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0


class TaskProgress(ApiModel):
    """What a running task says of itself."""

    node_id: str
    task_id: str
    progress_percent: float | None
    progress_current: int | None
    progress_total: int | None
    progress_message: str | None


class JobProgress(ApiModel):
    job_id: str
    job_status: JobStatus
    workflow_id: str
    overall_percent: float = Field(
        ge=0, le=100, description="Never goes back: a fan-out counts as one node, its children share that"
    )
    nodes: ProgressCounts
    current_tasks: list[TaskProgress] = Field(description="Held by workers now; the first 100")
    estimated_completion: datetime | None = Field(
        description="By the usual durations of the nodes that are left; null without a history"
    )


class JobProgressList(ApiModel):
    jobs: list[JobProgress] = Field(description="Those that exist, in the order in which they were asked for")


class SavedCheckpoint(ApiModel):
    phase: str
    saved_at: datetime


class NodeProgress(ApiModel):
    job_id: str
    node_id: str
    status: NodeStatus
    retry_count: int
    max_retries: int
    children: ProgressCounts | None = Field(description="Of a fan-out that has begun")
    task: TaskProgress | None
    checkpoint: SavedCheckpoint | None
