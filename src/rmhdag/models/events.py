"""The kinds of events that are recorded about jobs, nodes and orchestrators."""

from __future__ import annotations

from enum import StrEnum


class EventType(StrEnum):
    JOB_CREATED = "job_created"
    JOB_STARTED = "job_started"
    JOB_COMPLETED = "job_completed"
    JOB_FAILED = "job_failed"
    JOB_CANCELLED = "job_cancelled"
    JOB_RECLAIMED = "job_reclaimed"
    JOB_RERUN = "job_rerun"
    CALLBACK_DEAD = "callback_dead"
    NODE_READY = "node_ready"
    NODE_DISPATCHED = "node_dispatched"
    NODE_RUNNING = "node_running"
    NODE_COMPLETED = "node_completed"
    NODE_FAILED = "node_failed"
    NODE_RETRYING = "node_retrying"
    NODE_SKIPPED = "node_skipped"
    NODE_CHECKPOINT = "node_checkpoint"
    NODE_CANCELLED = "node_cancelled"
    NODE_LOST = "node_lost"
    ORCHESTRATOR_STARTED = "orchestrator_started"
    ORCHESTRATOR_STOPPED = "orchestrator_stopped"
    ORCHESTRATOR_ERROR = "orchestrator_error"
    ORCHESTRATOR_STALL = "orchestrator_stall"
    ORCHESTRATOR_BACKPRESSURE = "orchestrator_backpressure"


class EventStatus(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    WARNING = "warning"
    INFO = "info"


class ErrorKind(StrEnum):
    """Why a node failed, for people and for the retry rule."""

    HANDLER_ERROR = "handler_error"
    NON_RETRYABLE = "non_retryable"
    TIMEOUT = "timeout"
    START_TIMEOUT = "start_timeout"
    WORKER_DIED = "worker_died"
    LEASE_LOST = "lease_lost"
    OUTPUT_REFUSED = "output_refused"
    PUBLISH_FAILED = "publish_failed"
    TEMPLATE_ERROR = "template_error"
    FAN_OUT_SOURCE = "fan_out_source"
    CHILDREN_FAILED = "children_failed"
    AGGREGATION_FAILED = "aggregation_failed"
    REJECTED = "rejected"
    CHILD_JOB_FAILED = "child_job_failed"
    ENGINE_ERROR = "engine_error"


# An attempt that failed in one of these ways would fail the same way again.
NEVER_RETRIED = frozenset(
    {
        ErrorKind.NON_RETRYABLE,
        ErrorKind.LEASE_LOST,
        ErrorKind.OUTPUT_REFUSED,
        ErrorKind.TEMPLATE_ERROR,
        ErrorKind.FAN_OUT_SOURCE,
        ErrorKind.CHILDREN_FAILED,
        ErrorKind.AGGREGATION_FAILED,
        ErrorKind.REJECTED,
        ErrorKind.ENGINE_ERROR,
    }
)
