"""What needs a person, and how the jobs of the last hours fared: the first screen of the web interface."""

from datetime import datetime

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.queues import QueueStatus


class FailureGroup(ApiModel):
    """Failed jobs of one workflow with the same error, but for numbers and ids in it."""

    failure: str = Field(description="Give it as `failure` to list these jobs")
    workflow_id: str
    error: str = Field(description="Of the newest of them; cut at 300 characters")
    count: int
    first_seen_at: datetime
    last_seen_at: datetime
    newest_job_id: str


class SlowJob(ApiModel):
    """A job that runs longer than nineteen of twenty jobs of its workflow did in the last week."""

    job_id: str
    workflow_id: str
    submitted_by: str
    started_at: datetime
    running_seconds: float
    usual_seconds: float = Field(description="The 95th percentile")


class Attention(ApiModel):
    since: datetime = Field(description="Failures from then on are counted")
    checked_at: datetime
    failed_jobs: int = Field(description="At most 10,000 are looked at")
    failures: list[FailureGroup] = Field(description="The 20 most frequent")
    slow_jobs: list[SlowJob] = Field(description="At most 20, the slowest first")
    queues: list[QueueStatus] = Field(description="Those that need attention, and say why")
    dead_letters: int = Field(description="Open ones")
    callbacks: int = Field(description="Given up, or failing again and again")
    approvals: int = Field(description="Nodes of jobs that wait for a decision")
    reviews: int = Field(description="Revisions of assets that wait for a decision")


class Pulse(ApiModel):
    """Jobs that finished in the period."""

    since: datetime
    finished: int
    completed: int
    failed: int
    cancelled: int
    is_sample: bool = Field(description="There were more than 20,000; the figures are of the newest")
    success_rate: float | None = Field(description="Percent of completed and failed jobs; null if there were none")
    p50_duration_seconds: float | None = Field(description="Of completed jobs, from start to end")
    p95_duration_seconds: float | None
    p50_wait_seconds: float | None = Field(description="From submission to start")
    p95_wait_seconds: float | None
    running: int = Field(description="Now; at most 10,000 are counted")
    pending: int = Field(description="Now; at most 10,000 are counted")
