"""Settings of orchestrators: the queues of tasks, and when processes and jobs count as dead or stuck."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from rmhdag.models.setting_types import Days, Interval, QueueName, SettingsGroup


class OrchestratorConfiguration(SettingsGroup):
    """Workers send heartbeats at the same interval."""

    job_queue_name: QueueName | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_JOB_QUEUE_NAME", "JOB_QUEUE_NAME"),
        description="Queue for submitted jobs; required by orchestrators",
    )
    dag_worker_queue: QueueName | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_DAG_WORKER_QUEUE", "DAG_WORKER_QUEUE"),
        description="Queue for light tasks, and for tasks that name none; required by orchestrators",
    )
    worker_queue: QueueName | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_WORKER_QUEUE", "WORKER_QUEUE"),
        description="Queue for heavy tasks; required by orchestrators",
    )
    heartbeat_seconds: Interval = Field(
        default=2.0,
        validation_alias=AliasChoices(
            "RMHDAG_HEARTBEAT_SECONDS", "RMHDAG_HEARTBEAT_INTERVAL_SEC", "HEARTBEAT_INTERVAL_SEC"
        ),
        description="Seconds between two heartbeats of a process",
    )
    orphan_seconds: Interval = Field(
        default=10.0,
        validation_alias=AliasChoices("RMHDAG_ORPHAN_SECONDS", "RMHDAG_ORPHAN_THRESHOLD_SEC", "ORPHAN_THRESHOLD_SEC"),
        description="Seconds without a heartbeat before a process is considered dead",
    )
    orphan_scan_seconds: Interval = Field(
        default=1.0,
        validation_alias=AliasChoices(
            "RMHDAG_ORPHAN_SCAN_SECONDS", "RMHDAG_ORPHAN_SCAN_INTERVAL_SEC", "ORPHAN_SCAN_INTERVAL_SEC"
        ),
        description="Seconds between checks for dead processes",
    )
    stall_warning_seconds: Interval = Field(
        default=300.0,
        description="Seconds without progress before a running job is reported as stalled, with the reason",
    )
    # Longer than a handler may put a task off: a job that waits for that is not stuck.
    stuck_job_days: Days = Field(
        default=8.0, description="Days before a job fails in which nothing is left that could make progress"
    )
    worker_wait_days: Days | None = Field(
        default=None, description="Days that a job may wait for a worker before it fails; default: no limit"
    )
