"""Counts and durations of finished jobs, summed up by hours and days, so that metrics need not read the jobs.

Durations stand in buckets that grow by a tenth: a percentile read from them is right within 5 %.
"""

from typing import ClassVar

from rmhdag.models.columns import (
    Count,
    ErrorText,
    Flag,
    Milliseconds,
    Name,
    Namespace,
    NodeName,
    Number,
    OptionalNodeName,
    Stamped,
    Timestamp,
)
from rmhdag.models.states import JobStatus, NodeStatus
from rmhdag.models.table import Row, Table


class RollupMark(Row):
    """Every job of the namespace that had finished by then is in the tables below; later ones are read themselves."""

    table: ClassVar[Table] = Table(name="dag_rollup_marks", key=("namespace",), storage={"fillfactor": "50"})

    namespace: Namespace = "default"
    rolled_up_to: Timestamp


class JobRollup(Row):
    """Jobs that finished within the hour or day that begins at `starts_at`."""

    table: ClassVar[Table] = Table(
        name="dag_job_rollups",
        key=("namespace", "starts_at", "span_hours", "workflow_id", "status", "bucket"),
        storage={"fillfactor": "80"},
    )

    namespace: Namespace = "default"
    starts_at: Timestamp
    span_hours: Count
    workflow_id: Name
    status: JobStatus
    bucket: Count
    jobs: Number
    duration_ms: Milliseconds


class NodeRollup(Row):
    """Nodes of those jobs. Children stand under their fan-out, apart from its own row."""

    table: ClassVar[Table] = Table(
        name="dag_node_rollups",
        key=("namespace", "workflow_id", "starts_at", "span_hours", "node_id", "is_child", "status", "bucket"),
        storage={"fillfactor": "80"},
    )

    namespace: Namespace = "default"
    workflow_id: Name
    starts_at: Timestamp
    span_hours: Count
    node_id: NodeName
    is_child: Flag
    status: NodeStatus
    bucket: Count
    nodes: Number
    duration_ms: Milliseconds
    retries: Number


class FailureRollup(Row):
    """What failed jobs failed of. A job that failed without a failed node stands under the node ''."""

    table: ClassVar[Table] = Table(
        name="dag_failure_rollups",
        key=("namespace", "starts_at", "span_hours", "workflow_id", "node_id", "error"),
        storage={"fillfactor": "80"},
    )

    namespace: Namespace = "default"
    starts_at: Timestamp
    span_hours: Count
    workflow_id: Name
    node_id: OptionalNodeName
    error: ErrorText
    failures: Number
    last_at: Stamped


class ThroughputRollup(Row):
    """Jobs that completed within a minute; kept for eight days."""

    table: ClassVar[Table] = Table(
        name="dag_throughput_rollups",
        key=("namespace", "starts_at"),
        storage={"fillfactor": "80"},
    )

    namespace: Namespace = "default"
    starts_at: Timestamp
    jobs: Number
    duration_ms: Milliseconds
