"""A job with its nodes in the order in which they run, fan-outs as counts: what people look at while they wait."""

from datetime import datetime

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.data_errors import ErrorView, WarningView
from rmhdag.models.api.jobs import JobReference, NodeCounts, Reason
from rmhdag.models.api.nodes import GraphStructure
from rmhdag.models.api.progress import JobProgress, TaskProgress
from rmhdag.models.columns import ShownObject
from rmhdag.models.states import JOB_TERMINAL, NODE_TERMINAL, JobEnding, JobStatus, NodeStatus, NodeType


class NodeOverview(ApiModel):
    """A node of the definition; the children of a fan-out are counts."""

    node_id: str
    type: NodeType
    status: NodeStatus
    attempt: int
    retry_count: int
    max_retries: int
    lease_losses: int
    task_id: str | None
    reused_task_id: str | None
    next_attempt_at: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    ready_at: datetime | None
    dispatched_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    checkpoint_phase: str | None
    error_message: str | None = Field(description="Of the last attempt that failed, until one completes")
    error: ErrorView | None = Field(description="Of that attempt, if it named a code")
    child_job_id: str | None = Field(description="Of a `workflow` node: the newest job that it began")
    duration_seconds: float | None
    taken_over: bool = Field(description="From the job that was rerun")
    children: NodeCounts | None = Field(description="Of a fan-out that has begun; those not born yet are pending")
    progress: TaskProgress | None
    reason: Reason | None = Field(default=None, description="Why it does not run, if that was asked for")

    @property
    def settled_children(self) -> int:
        return 0 if self.children is None else _settled(self.children)

    @property
    def is_settled(self) -> bool:
        return self.status in NODE_TERMINAL


class JobOverview(ApiModel):
    job_id: str
    namespace: str
    workflow_id: str
    workflow_version: int
    workflow_hash: str
    status: JobStatus
    ending: JobEnding | None
    priority: int
    submitted_by: str
    correlation_id: str | None
    idempotency_key: str | None
    callback_url: str | None
    request_id: str | None
    parent_job_id: str | None
    parent_node_id: str | None
    rerun_of: str | None
    root_job_id: str
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error_message: str | None
    labels: dict[str, str] = Field(default_factory=dict)
    error: ErrorView | None = Field(description="The error of the node that failed the job, if it has a code")
    warnings: list[WarningView] = Field(description="Of all results that it uses, summed by code")
    input_params: ShownObject
    result_data: ShownObject | None
    owner_id: str | None
    owner_epoch: int
    owner_heartbeat_at: datetime | None
    duration_seconds: float | None
    node_counts: NodeCounts
    nodes: list[NodeOverview] = Field(description="Empty until an orchestrator has begun the job")
    reruns: list[JobReference] = Field(description="Of a job that has ended; oldest first")
    progress: JobProgress | None = Field(
        None, description="If the query asks for it and the job has not ended: how far it is, and when it will end"
    )
    structure: GraphStructure | None = Field(None, description="If the query asks for it: the positions of the nodes")
    seen_at: datetime = Field(description="By the clock of the database")

    @property
    def has_ended(self) -> bool:
        return self.status in JOB_TERMINAL

    @property
    def settled_nodes(self) -> int:
        return _settled(self.node_counts)


def _settled(counts: NodeCounts) -> int:
    return counts.completed + counts.failed + counts.skipped + counts.cancelled
