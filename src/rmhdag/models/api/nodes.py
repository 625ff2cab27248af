"""Nodes of jobs, a job's graph, and what its tasks wrote."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, RootModel

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.data_errors import ErrorView, WarningView
from rmhdag.models.api.jobs import NodeCounts, Reason, ReasonText, RequestBody
from rmhdag.models.columns import ShownObject
from rmhdag.models.events import ErrorKind
from rmhdag.models.reviews import Clearance
from rmhdag.models.states import JobStatus, NodeStatus, NodeType


class NodeSummary(ApiModel):
    """`handler` and `queue` are those of a task, or of a fan-out's children."""

    job_id: str
    node_id: str
    type: NodeType
    status: NodeStatus
    handler: str | None = None
    queue: str | None = None
    attempt: int
    retry_count: int
    max_retries: int
    lease_losses: int
    task_id: str | None = None
    reused_task_id: str | None = Field(default=None, description="The task of another job whose outcome is taken over")
    parent_node_id: str | None = None
    fan_out_index: int | None = None
    fan_out_item_key: str | None = None
    next_attempt_at: datetime | None = None
    deadline_at: datetime | None = None
    created_at: datetime
    ready_at: datetime | None = None
    dispatched_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    checkpoint_phase: str | None = None
    error_message: str | None = Field(default=None, description="Of the last attempt that failed, until one completes")
    error: ErrorView | None = Field(default=None, description="Of that attempt, if it named a code")
    warnings: list[WarningView] = Field(default_factory=list, description="Of its result")
    child_job_id: str | None = Field(default=None, description="Of a `workflow` node: the newest job that it began")
    children_total: int | None = Field(default=None, description="Of a fan-out, once it is known")
    duration_seconds: float | None = None


class NodePage(ApiModel):
    nodes: list[NodeSummary]
    next_cursor: str | None = Field(
        default=None, description="`cursor` of the next page; a page may be short, even empty, and not be the last"
    )


class NodeView(NodeSummary):
    """All about one node; the warnings of a fan-out are those of its children, summed by code. An output above 64 KB is
    a reference, `{"rmhdag:payload": {sha256, size_bytes, media_type}}`, and so are large parameters; the values are at
    `/api/v1/jobs/{job_id}/payloads/{sha256}`."""

    input_params: ShownObject
    output: Any = None
    worker_id: str | None = None
    error_kind: ErrorKind | None = None
    metrics: dict[str, Any] = Field(default_factory=dict)
    checkpoint_saved_at: datetime | None = None
    children: NodeCounts | None = Field(default=None, description="Of a fan-out, by status")
    reason: Reason | None = Field(default=None, description="Why it does not run, if it has not ended")


class StoredValue(RootModel[Any]):
    """What a reference stands for."""


class Decision(RequestBody):
    decision: Literal["approve", "reject"]
    reason: ReasonText | None = None
    clearance: Clearance | None = Field(
        default=None,
        description="Who may see the revision that the job makes: `public` or `restricted`. Needed to approve one",
    )


class GraphNode(ApiModel):
    """`x` and `y` are the upper left corner of its box."""

    id: str
    type: NodeType
    label: str
    detail: str
    description: str
    layer: int
    x: int
    y: int
    width: int
    height: int


class GraphEdge(ApiModel):
    """`points` lead from the border of the source to that of the target."""

    source: str
    target: str
    kind: str
    label: str
    label_at: tuple[int, int] | None = None
    points: list[tuple[int, int]]


class GraphStructure(ApiModel):
    """The picture of a definition: it changes only with the hash."""

    title: str
    description: str | None = None
    direction: str
    width: int
    height: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class GraphState(ApiModel):
    """Where a node of the picture stands; a fan-out's children are counts."""

    status: NodeStatus
    attempt: int
    started_at: datetime | None = None
    completed_at: datetime | None = None
    duration_seconds: float | None = None
    error_message: str | None = None
    taken_over: bool = Field(default=False, description="From the job that was rerun")
    children: NodeCounts | None = None


class JobGraph(ApiModel):
    """`structure` is null if the caller has it already (`structure=false`)."""

    job_id: str
    workflow_id: str
    workflow_version: int
    workflow_hash: str
    status: JobStatus
    structure: GraphStructure | None
    states: dict[str, GraphState] = Field(description="By node; a node that is missing here does not exist yet")


class LogChunk(ApiModel):
    """A piece of what one attempt wrote."""

    node_id: str
    task_id: str
    lease_epoch: int
    chunk_index: int
    created_at: datetime
    truncated: bool = Field(description="The rest was cut: 1 MB is kept per attempt")
    content: str


class LogPage(ApiModel):
    """Oldest first. `last_cursor` is the end of this page: to follow a running job, continue from there."""

    job_id: str
    node_id: str | None = None
    chunks: list[LogChunk]
    next_cursor: str | None = None
    last_cursor: str | None = None
