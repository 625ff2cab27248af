"""Jobs and their nodes, and what people ask of them. Only a job's owner writes these rows, under the job's lock."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from rmhdag.models.columns import (
    Attempt,
    Count,
    Depth,
    Id,
    IdempotencyKey,
    InputJsonObject,
    JsonList,
    JsonObject,
    JsonValue,
    LargeJsonList,
    LargeJsonObject,
    Message,
    Name,
    Namespace,
    NodeName,
    Number,
    Priority,
    Sha256,
    Stamped,
    Timestamp,
    Url,
)
from rmhdag.models.labels import LabelKey, LabelValue
from rmhdag.models.states import JOB_TERMINAL, NODE_TERMINAL, JobEnding, JobStatus, NodeStatus
from rmhdag.models.table import Check, Index, Row, Table, one_of


class Job(Row):
    """One execution of a workflow. `owner_epoch` grows with every claim and fences all writes of the job."""

    table: ClassVar[Table] = Table(
        name="dag_jobs",
        key=("job_id",),
        indexes=(
            Index(
                "idempotency",
                ("namespace", "submitted_by", "idempotency_key"),
                unique=True,
                where="idempotency_key IS NOT NULL",
            ),
            # Both an owner's jobs after a restart and jobs without an owner (owner_id IS NULL).
            Index("owned", ("owner_id", "job_id"), where="completed_at IS NULL"),
            # Pages go by (created_at, job_id): the id of a child job is made from its parent's, so it has no order.
            Index("list", ("namespace", "created_at", "job_id")),
            Index("active", ("namespace", "created_at", "job_id"), where="completed_at IS NULL"),
            Index(
                "unsuccessful",
                ("namespace", "status", "created_at", "job_id"),
                where="status IN ('failed', 'cancelled')",
            ),
            Index("workflow", ("namespace", "workflow_id", "created_at", "job_id")),
            Index("submitter", ("namespace", "submitted_by", "created_at", "job_id")),
            Index("finished", ("namespace", "completed_at"), where="completed_at IS NOT NULL"),
            Index(
                "correlation",
                ("namespace", "correlation_id", "created_at", "job_id"),
                where="correlation_id IS NOT NULL",
            ),
            Index("request", ("namespace", "request_id"), where="request_id IS NOT NULL"),
            Index("asset", ("namespace", "asset_id", "revision"), where="asset_id IS NOT NULL"),
            Index("children", ("parent_job_id", "parent_node_id"), where="parent_job_id IS NOT NULL"),
            Index("reruns", ("root_job_id", "job_id"), where="rerun_of IS NOT NULL"),
        ),
        checks=(
            Check("terminal_has_end", f"({one_of('status', JOB_TERMINAL)}) = (completed_at IS NOT NULL)"),
            Check("running_has_start", "status NOT IN ('running', 'completed') OR started_at IS NOT NULL"),
            Check("draining_never_completes", "ending IS NULL OR status <> 'completed'"),
            Check("priority_range", "priority BETWEEN 0 AND 10"),
            Check("depth_range", "depth BETWEEN 0 AND 8"),
            Check("workflow_version_positive", "workflow_version >= 1"),
            Check("epoch_not_negative", "owner_epoch >= 0 AND version >= 0"),
            Check("parent_whole", "(parent_job_id IS NULL) = (parent_node_id IS NULL)"),
            Check("revision_of_asset", "revision IS NULL OR (revision >= 1 AND asset_id IS NOT NULL)"),
        ),
        storage={
            "fillfactor": "80",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_analyze_scale_factor": "0.02",
        },
    )

    job_id: Id
    namespace: Namespace = "default"
    workflow_id: Name
    workflow_version: Attempt
    workflow_hash: Sha256
    status: JobStatus = JobStatus.PENDING
    ending: JobEnding | None = None
    priority: Priority = 0
    depth: Depth = 0
    fairness_key: Name
    owner_id: Id | None = None
    owner_epoch: Number = 0
    version: Number = 0
    submitted_by: Name
    correlation_id: Id | None = None
    idempotency_key: IdempotencyKey | None = None
    callback_url: Url | None = None
    request_id: Id | None = None
    asset_id: Id | None = None
    revision: Count | None = None
    parent_job_id: Id | None = None
    parent_node_id: NodeName | None = None
    rerun_of: Id | None = None
    root_job_id: Id
    created_at: Stamped
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    updated_at: Stamped
    error_message: Message | None = None
    input_params: InputJsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)
    result_data: LargeJsonObject | None = None
    # Of the node that made it fail, if that named a code.
    error: JsonObject | None = None
    # Of all results that the job uses, summed by code: see `models.data_warnings`.
    warnings: LargeJsonList | None = None


class JobLabel(Row):
    """A label of a job. Its owner neither reads nor writes it: to change labels never touches the job's own row, and
    work goes on undisturbed.

    `created_at` is the job's, so that each index has the jobs with a label in the order of lists.
    """

    table: ClassVar[Table] = Table(
        name="dag_job_labels",
        key=("job_id", "key"),
        indexes=(
            Index("value", ("namespace", "key", "value", "created_at", "job_id")),
            Index("key", ("namespace", "key", "created_at", "job_id")),
        ),
    )

    job_id: Id
    key: LabelKey
    namespace: Namespace = "default"
    value: LabelValue
    created_at: Stamped


class PrunedJob(Row):
    """A job whose row is gone because it was old; its nodes, results and the rest are still being deleted.

    So a job of 500,000 children disappears at once for readers, and for the database in many small transactions: this
    row goes with the last of them.
    """

    table: ClassVar[Table] = Table(name="dag_pruned_jobs", key=("job_id",))

    job_id: Id
    namespace: Namespace = "default"
    pruned_at: Stamped


class NodeState(Row):
    """A node of a job. No index names `status`: one would make every change of it a costly one."""

    table: ClassVar[Table] = Table(
        name="dag_node_states",
        key=("job_id", "node_id"),
        indexes=(
            Index("retry_due", ("next_attempt_at",), where="next_attempt_at IS NOT NULL"),
            Index("deadline_due", ("deadline_at",), where="deadline_at IS NOT NULL"),
            Index("children", ("job_id", "parent_node_id", "fan_out_index"), where="parent_node_id IS NOT NULL"),
        ),
        checks=(
            Check("terminal_has_end", f"({one_of('status', NODE_TERMINAL)}) = (completed_at IS NOT NULL)"),
            Check("dispatched_has_task", "status <> 'dispatched' OR task_id IS NOT NULL"),
            Check("attempt_counted", "attempt >= 1 AND retry_count >= 0 AND retry_count < attempt"),
            Check("limits_not_negative", "max_retries >= 0 AND lease_losses >= 0 AND version >= 0"),
            Check("child_has_parent", "(fan_out_index IS NULL) = (parent_node_id IS NULL) AND fan_out_index >= 0"),
            Check("checkpoint_whole", "(checkpoint_phase IS NULL) = (checkpoint_saved_at IS NULL)"),
        ),
        storage={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_analyze_scale_factor": "0.05",
            "autovacuum_vacuum_cost_delay": "1",
        },
    )

    job_id: Id
    node_id: NodeName
    namespace: Namespace = "default"
    status: NodeStatus = NodeStatus.PENDING
    attempt: Attempt = 1
    retry_count: Count = 0
    max_retries: Count = 0
    lease_losses: Count = 0
    version: Number = 0
    task_id: Id | None = None
    reused_task_id: Id | None = None
    parent_node_id: NodeName | None = None
    fan_out_index: Count | None = None
    fan_out_item_key: Name | None = None
    next_attempt_at: Timestamp | None = None
    deadline_at: Timestamp | None = None
    created_at: Stamped
    ready_at: Timestamp | None = None
    dispatched_at: Timestamp | None = None
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    updated_at: Stamped
    checkpoint_phase: Name | None = None
    checkpoint_saved_at: Timestamp | None = None
    error_message: Message | None = None
    input_params: LargeJsonObject = Field(default_factory=dict)
    checkpoint_data: JsonValue | None = None
    output: JsonValue | None = None
    # Goes with `error_message`, if the attempt that failed named a code.
    error: JsonObject | None = None


class WaitingApproval(Row):
    """An approval that waits for a person now; its row goes with the wait.

    So the list of what waits is as short as it is, however many nodes have ended, and no index names their status.
    """

    table: ClassVar[Table] = Table(
        name="dag_waiting_approvals",
        key=("job_id", "node_id"),
        indexes=(Index("list", ("namespace", "requested_at", "job_id", "node_id")),),
    )

    job_id: Id
    node_id: NodeName
    namespace: Namespace = "default"
    requested_at: Stamped
    deadline_at: Timestamp | None = None
    message: Message | None = None
    approvers: JsonList = Field(default_factory=list)


class CommandKind(StrEnum):
    CANCEL = "cancel"
    RETRY_NODE = "retry_node"
    DECIDE = "decide"


class CommandOutcome(StrEnum):
    APPLIED = "applied"
    REFUSED = "refused"


class JobCommand(Row):
    """A command for a job; the job's owner answers with an outcome."""

    table: ClassVar[Table] = Table(
        name="dag_job_commands",
        key=("command_id",),
        indexes=(
            Index("job", ("namespace", "job_id", "command_id")),
            Index("open", ("job_id",), where="applied_at IS NULL"),
        ),
        checks=(Check("applied_has_outcome", "(applied_at IS NULL) = (outcome IS NULL)"),),
        storage={"fillfactor": "80"},
    )

    command_id: Id
    namespace: Namespace = "default"
    job_id: Id
    kind: CommandKind
    body: JsonObject = Field(default_factory=dict)
    issued_by: Name
    issued_at: Stamped
    applied_at: Timestamp | None = None
    outcome: CommandOutcome | None = None
    reason: Message | None = None
