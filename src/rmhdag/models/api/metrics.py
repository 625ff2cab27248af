"""How workflows, their nodes and the whole platform have fared over some time."""

from datetime import datetime

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.states import JobStatus

PERCENT = "Percent of those that finished; null if none did"
PERCENTILE = "Right within 5 %"


class MetricsPeriod(ApiModel):
    """More than one day begins with midnight (UTC), one day with a full hour."""

    since: datetime
    until: datetime


class CommonFailure(ApiModel):
    node_id: str | None = Field(description="Children are counted under their fan-out; null: the job itself failed")
    count: int
    error: str = Field(description="Cut at 200 characters")


class WorkflowMetrics(ApiModel):
    workflow_id: str
    total_jobs: int = Field(description="Finished in the period, or not finished yet")
    completed: int
    failed: int
    cancelled: int
    success_rate: float | None = Field(description=PERCENT)
    avg_duration_seconds: float | None = Field(description="Of completed jobs, from their start")
    p50_duration_seconds: float | None = Field(description=PERCENTILE)
    p95_duration_seconds: float | None = Field(description=PERCENTILE)
    common_failures: list[CommonFailure] = Field(description="The five most frequent")


class WorkflowMetricsList(ApiModel):
    period: MetricsPeriod
    workflows: list[WorkflowMetrics]


class NodeMetrics(ApiModel):
    node_id: str
    total_executions: int = Field(description="Of a fan-out: its children")
    completed: int
    failed: int
    success_rate: float | None = Field(description=PERCENT)
    avg_duration_seconds: float | None
    p50_duration_seconds: float | None = Field(description=PERCENTILE)
    p95_duration_seconds: float | None = Field(description=PERCENTILE)
    total_retries: int


class NodeMetricsList(ApiModel):
    period: MetricsPeriod
    workflow_id: str
    nodes: list[NodeMetrics]


class FailureCount(ApiModel):
    workflow_id: str
    node_id: str | None
    error: str = Field(description="Cut at 200 characters")
    count: int
    last_seen_at: datetime


class FailureMetrics(ApiModel):
    """What failed jobs failed of, the most frequent first."""

    period: MetricsPeriod
    total_failures: int
    unique_errors: int
    failures: list[FailureCount]


class ThroughputBucket(ApiModel):
    timestamp: datetime
    jobs_completed: int
    avg_duration_seconds: float | None


class ThroughputMetrics(ApiModel):
    period: MetricsPeriod
    bucket_minutes: int
    buckets: list[ThroughputBucket] = Field(description="All of the period, oldest first; empty ones too")


class RecentRun(ApiModel):
    job_id: str
    status: JobStatus
    created_at: datetime
    duration_seconds: float | None = Field(description="Until now, if it has not ended; null before it starts")


class RecentRuns(ApiModel):
    runs: dict[str, list[RecentRun]] = Field(description="By workflow, oldest first")
