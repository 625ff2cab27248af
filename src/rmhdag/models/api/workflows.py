"""Workflows over HTTP: registered workflows, problems of a file, and the result of a registration."""

from datetime import datetime
from typing import Any

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class WorkflowSummary(ApiModel):
    """One version of a workflow, without its definition."""

    workflow_id: str
    version: int
    hash: str = Field(description="Of what the workflow means, not of how it is written")
    name: str
    description: str | None
    registered_by: str
    registered_at: datetime
    retired_at: datetime | None = Field(
        default=None, description="Since when it accepts no new jobs; null if it accepts them"
    )
    retired_by: str | None = None


class WorkflowPage(ApiModel):
    workflows: list[WorkflowSummary]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")


class VersionPage(ApiModel):
    versions: list[WorkflowSummary]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")


class WorkflowDetail(WorkflowSummary):
    definition: dict[str, Any] = Field(description="As the engine runs it: shorthands folded, defaults written out")
    layout: dict[str, Any] = Field(description="Where its graph is drawn")


class WorkflowProblem(ApiModel):
    """One thing that is wrong with a workflow."""

    pointer: str = Field(description="RFC 6901, into the workflow")
    line: int | None = Field(description="From 1; null if the workflow was sent as JSON")
    column: int | None
    code: str
    message: str
    remedy: str


class WorkflowCheck(ApiModel):
    """What is wrong with a workflow; nothing was stored."""

    valid: bool
    workflow_id: str | None
    version: int | None
    node_count: int | None
    problems: list[WorkflowProblem]


class Registration(ApiModel):
    workflow_id: str
    version: int
    hash: str
    node_count: int
    is_new: bool = Field(description="False if this very content was registered already")


class JobDefinition(ApiModel):
    """The definition that a job runs, and whether the workflow has changed since."""

    workflow_id: str
    version: int
    hash: str
    definition: dict[str, Any] = Field(description="As the engine runs it: shorthands folded, defaults written out")
    newest_version: int | None = Field(description="Null if the workflow is not registered any more")
    newest_hash: str | None = None
    newest_definition: dict[str, Any] | None = Field(
        default=None, description="Null if it is the one that the job runs"
    )
