"""What a submission would do, as a dry run answers it."""

from typing import Any, Literal

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.problems import ProblemPlace


class PreviewProblem(ProblemPlace):
    """One reason why the submission would be refused."""

    refusal: str = Field(description="The code of the refusal, such as `invalid_parameters`")
    remedy: str | None = None


class PreviewWarning(ApiModel):
    code: str
    message: str


class JobEstimate(ApiModel):
    """Known before the job runs; null is what nobody knows."""

    tasks: int | None = Field(description="Tasks of the job; null if their number depends on what the job finds")
    input_bytes: int | None = Field(description="Size of the files that the checks of the workflow name")
    runs: int = Field(description="Completed jobs of this workflow in the last 30 days; their durations follow")
    p50_seconds: float | None = Field(description="Half of them took no longer; null if there are fewer than 5")
    p95_seconds: float | None = Field(description="95 of 100 of them took no longer; null if there are fewer than 5")


class JobPreview(ApiModel):
    """Nothing was created, and nothing was changed."""

    dry_run: Literal[True] = True
    valid: bool = Field(description="Whether the submission would be accepted")
    problems: list[PreviewProblem] = Field(default_factory=list, description="All that is wrong, with its place")
    warnings: list[PreviewWarning] = Field(default_factory=list)
    workflow_id: str
    workflow_version: int | None = Field(default=None, description="Null if there is no such workflow")
    input_params: dict[str, Any] | None = Field(
        default=None, description="The parameters with defaults and without secrets; null if they are wrong"
    )
    estimate: JobEstimate | None = Field(
        default=None, description="What the job would cost; null if there is no such workflow, or no new job"
    )
    repeats_job_id: str | None = Field(
        default=None, description="The same submission was made before, and would be answered with this job"
    )


class OrderPreview(JobPreview):
    outcome: Literal["create", "join", "repeat", "conflict", "invalid"] = Field(
        description="`join`: a job with the same parameters is under way; `conflict`: one with others; `repeat`: the "
        "same order was accepted before"
    )
    request_id: str | None = Field(default=None, description="Of the order that would be repeated")
    platform_id: str | None = None
    asset_id: str | None = Field(default=None, description="Null if the workflow makes no asset")
    asset_exists: bool = False
    revision: int | None = Field(default=None, description="The next one, or the one that would be joined")
    version_label: str | None = Field(default=None, description="The version that the revision would be")
    job_id: str | None = Field(default=None, description="The job that would be joined or repeated")
    supersedes_job_id: str | None = Field(default=None, description="The job that would be cancelled")
    waits_for_review: bool = Field(default=False, description="The revision would be served only after an approval")
    current_revision: int | None = Field(default=None, description="What is served now")
    current_version: str | None = Field(default=None, description="The version that is served now")
