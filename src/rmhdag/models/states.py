"""Every state that a job, node or task can be in, and every change between them that is allowed.

The tables are data: the engine checks its changes against them, the database enum types and the diagrams in
`docs/architecture/states.md` are made from them.
"""

from __future__ import annotations

from enum import StrEnum


class JobStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class NodeStatus(StrEnum):
    PENDING = "pending"
    READY = "ready"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class TaskStatus(StrEnum):
    RECEIVED = "received"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    LOST = "lost"
    STALE = "stale"
    CANCELLED = "cancelled"


class JobEnding(StrEnum):
    """How a draining job will end once its last leased task is settled."""

    FAILED = "failed"
    CANCELLED = "cancelled"


class NodeType(StrEnum):
    START = "start"
    END = "end"
    TASK = "task"
    CONDITIONAL = "conditional"
    FAN_OUT = "fan_out"
    FAN_IN = "fan_in"
    APPROVAL = "approval"
    WORKFLOW = "workflow"


JOB_TERMINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})
NODE_TERMINAL = frozenset({NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.SKIPPED, NodeStatus.CANCELLED})
TASK_TERMINAL = frozenset(
    {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.LOST, TaskStatus.STALE, TaskStatus.CANCELLED}
)

# from → {to: why it happens}
JOB_TRANSITIONS: dict[JobStatus, dict[JobStatus, str]] = {
    JobStatus.PENDING: {
        JobStatus.RUNNING: "an orchestrator starts it",
        JobStatus.FAILED: "it cannot start",
        JobStatus.CANCELLED: "cancelled before it started",
    },
    JobStatus.RUNNING: {
        JobStatus.COMPLETED: "every node is settled",
        JobStatus.FAILED: "a node failed for good and the job has drained",
        JobStatus.CANCELLED: "cancelled and drained",
    },
    JobStatus.COMPLETED: {},
    JobStatus.FAILED: {},
    JobStatus.CANCELLED: {},
}

NODE_TRANSITIONS: dict[NodeStatus, dict[NodeStatus, str]] = {
    NodeStatus.PENDING: {
        NodeStatus.READY: "its dependencies are met",
        NodeStatus.SKIPPED: "no live edge reaches it",
        NodeStatus.CANCELLED: "the job is ending",
    },
    NodeStatus.READY: {
        NodeStatus.DISPATCHED: "its task is queued",
        NodeStatus.RUNNING: "an approval, child job or expansion waits",
        NodeStatus.COMPLETED: "it needs no worker",
        NodeStatus.FAILED: "it needs no worker, or its parameters cannot be resolved",
        NodeStatus.SKIPPED: "the job is ending",
        NodeStatus.CANCELLED: "the job is ending",
    },
    NodeStatus.DISPATCHED: {
        NodeStatus.RUNNING: "a worker runs it",
        NodeStatus.COMPLETED: "a short task reported once",
        NodeStatus.FAILED: "a short task failed, or it did not start in time",
        NodeStatus.READY: "its worker was lost",
        NodeStatus.CANCELLED: "the job is ending",
    },
    NodeStatus.RUNNING: {
        NodeStatus.COMPLETED: "success",
        NodeStatus.FAILED: "error or time-out",
        NodeStatus.READY: "its worker was lost",
        NodeStatus.CANCELLED: "the job is ending",
    },
    NodeStatus.FAILED: {NodeStatus.READY: "retry"},
    NodeStatus.COMPLETED: {},
    NodeStatus.SKIPPED: {},
    NodeStatus.CANCELLED: {},
}

TASK_TRANSITIONS: dict[TaskStatus, dict[TaskStatus, str]] = {
    TaskStatus.RECEIVED: {
        TaskStatus.RUNNING: "a child process runs it",
        TaskStatus.COMPLETED: "a short task reported once",
        TaskStatus.FAILED: "it failed",
        TaskStatus.LOST: "its worker was lost",
        TaskStatus.CANCELLED: "the job is ending",
    },
    TaskStatus.RUNNING: {
        TaskStatus.COMPLETED: "success",
        TaskStatus.FAILED: "error or time-out",
        TaskStatus.LOST: "its worker was lost",
        TaskStatus.STALE: "it was returned or revoked",
        TaskStatus.CANCELLED: "the job is ending",
    },
    TaskStatus.COMPLETED: {},
    TaskStatus.FAILED: {},
    TaskStatus.LOST: {},
    TaskStatus.STALE: {},
    TaskStatus.CANCELLED: {},
}
