"""How workflows, their nodes and the whole platform have fared over some time."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

PERCENT = "Percent of those that finished; null if none did"
PERCENTILE = "Right within 5 %"


class MetricsPeriod(BaseModel):
    """More than one day begins with midnight (UTC), one day with a full hour."""

    since: datetime
    until: datetime


class CommonFailure(BaseModel):
    node_id: str | None = Field(description="Children stand under their fan-out; null: the job failed by itself")
    count: int
    error: str = Field(description="Cut at 200 characters")


class WorkflowMetrics(BaseModel):
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


class WorkflowMetricsList(BaseModel):
    period: MetricsPeriod
    workflows: list[WorkflowMetrics]


class NodeMetrics(BaseModel):
    node_id: str
    total_executions: int = Field(description="Of a fan-out: its children")
    completed: int
    failed: int
    success_rate: float | None = Field(description=PERCENT)
    avg_duration_seconds: float | None
    p50_duration_seconds: float | None = Field(description=PERCENTILE)
    p95_duration_seconds: float | None = Field(description=PERCENTILE)
    total_retries: int


class NodeMetricsList(BaseModel):
    period: MetricsPeriod
    workflow_id: str
    nodes: list[NodeMetrics]


class FailureCount(BaseModel):
    workflow_id: str
    node_id: str | None
    error: str = Field(description="Cut at 200 characters")
    count: int
    last_seen_at: datetime


class FailureMetrics(BaseModel):
    """What failed jobs failed of, the most frequent first."""

    period: MetricsPeriod
    total_failures: int
    unique_errors: int
    failures: list[FailureCount]


class ThroughputBucket(BaseModel):
    timestamp: datetime
    jobs_completed: int
    avg_duration_seconds: float | None


class ThroughputMetrics(BaseModel):
    period: MetricsPeriod
    bucket_minutes: int
    buckets: list[ThroughputBucket] = Field(description="All of the period, oldest first; empty ones too")
